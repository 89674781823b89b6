package render

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/mattn/go-runewidth"
)

// vectorPreview is how many elements of a long numeric list people see.
const vectorPreview = 3

// tableWriter keeps rows as text until Close, when column widths are known.
type tableWriter struct {
	w      io.Writer
	schema *arrow.Schema
	opts   Options
	cells  [][]string
	total  int64
}

func newTable(w io.Writer, schema *arrow.Schema, opts Options) *tableWriter {
	if opts.MaxRows <= 0 {
		opts.MaxRows = 10_000
	}
	if opts.MaxCell <= 0 {
		opts.MaxCell = 60
	}
	return &tableWriter{w: w, schema: schema, opts: opts}
}

func (t *tableWriter) Write(rec arrow.RecordBatch) error {
	for r := 0; r < int(rec.NumRows()); r++ {
		t.total++
		if len(t.cells) >= t.opts.MaxRows {
			continue
		}
		row := make([]string, rec.NumCols())
		for c := range row {
			// Text may point into the batch, which is gone before the table is drawn.
			row[c] = strings.Clone(clip(oneLine(peopleText(rec.Column(c), r)), t.opts.MaxCell))
		}
		t.cells = append(t.cells, row)
	}
	return nil
}

// Close draws the table. Columns that do not fit the width are narrowed, widest first, down to eight cells; what still
// does not fit is left to the terminal to wrap.
func (t *tableWriter) Close() error {
	b := bufio.NewWriter(t.w)
	n := t.schema.NumFields()
	widths := make([]int, n)
	names := make([]string, n)
	for c, f := range t.schema.Fields() {
		names[c] = clip(oneLine(f.Name), t.opts.MaxCell)
		widths[c] = runewidth.StringWidth(names[c])
	}
	for _, row := range t.cells {
		for c, s := range row {
			widths[c] = max(widths[c], runewidth.StringWidth(s))
		}
	}
	if t.opts.Width > 0 {
		shrink(widths, t.opts.Width-3*n-1)
	}
	rule := func(left, mid, right string) {
		b.WriteString(left)
		for c, w := range widths {
			if c > 0 {
				b.WriteString(mid)
			}
			b.WriteString(strings.Repeat("─", w+2))
		}
		b.WriteString(right + "\n")
	}
	line := func(cells []string, header bool) {
		b.WriteString("│")
		for c, s := range cells {
			s = clip(s, widths[c])
			pad := strings.Repeat(" ", widths[c]-runewidth.StringWidth(s))
			if !header && numeric(t.schema.Field(c).Type) {
				b.WriteString(" " + pad + s + " │")
			} else {
				b.WriteString(" " + s + pad + " │")
			}
		}
		b.WriteString("\n")
	}
	rule("┌", "┬", "┐")
	line(names, true)
	rule("├", "┼", "┤")
	for _, row := range t.cells {
		line(row, false)
	}
	rule("└", "┴", "┘")
	switch hidden := t.total - int64(len(t.cells)); {
	case hidden > 0:
		fmt.Fprintf(b, "%d rows, the first %d shown\n", t.total, len(t.cells))
	case t.total == 1:
		b.WriteString("1 row\n")
	default:
		fmt.Fprintf(b, "%d rows\n", t.total)
	}
	return b.Flush()
}

func shrink(widths []int, room int) {
	total := 0
	for _, w := range widths {
		total += w
	}
	for total > room {
		widest := 0
		for c, w := range widths {
			if w > widths[widest] {
				widest = c
			}
		}
		if widths[widest] <= 8 {
			return
		}
		widths[widest]--
		total--
	}
}

// peopleText is Text with NULL spelled out and long vectors cut.
func peopleText(a arrow.Array, i int) string {
	if a.IsNull(i) {
		return "NULL"
	}
	l, ok := a.(array.ListLike)
	if !ok {
		return Text(a, i)
	}
	lo, hi := l.ValueOffsets(i)
	if hi-lo <= 8 || !numeric(l.ListValues().DataType()) {
		return Text(a, i)
	}
	var b strings.Builder
	b.WriteByte('[')
	for k := lo; k < lo+vectorPreview; k++ {
		b.WriteString(Text(l.ListValues(), int(k)))
		b.WriteByte(',')
	}
	b.WriteString("… " + strconv.FormatInt(hi-lo, 10) + " values]")
	return b.String()
}

func oneLine(s string) string {
	if !strings.ContainsAny(s, "\n\r\t") {
		return s
	}
	return strings.NewReplacer("\r\n", "⏎", "\n", "⏎", "\r", "⏎", "\t", " ").Replace(s)
}

func clip(s string, width int) string {
	if runewidth.StringWidth(s) <= width {
		return s
	}
	return runewidth.Truncate(s, width, "…")
}

func numeric(t arrow.DataType) bool {
	return arrow.IsInteger(t.ID()) || arrow.IsFloating(t.ID()) || arrow.IsDecimal(t.ID())
}
