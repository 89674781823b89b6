// Package render answers: how do rows look to a person or to a program?
//
// A Writer takes record batches and writes them in one Format. Table and markdown are for people: table holds at most
// Options.MaxRows rows in memory to size its columns. json, csv and arrow are for programs: they stream, batch by batch,
// and lose nothing that the format can hold.
//
// Value rules, the same for json and csv unless said otherwise:
//   - NULL is null in json and an empty field in csv (an empty string is "" there).
//   - float values that json cannot hold are the strings "NaN", "Infinity" and "-Infinity".
//   - decimals and 128-bit integers are written with all their digits.
//   - timestamps are ISO 8601; those with a time zone end in Z.
//   - binary is \x followed by hex digits; lists and vectors are arrays; structs and maps with string keys are objects.
package render

import (
	"bufio"
	"encoding/csv"
	"io"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/overlakedb/overlake/internal/errs"
)

// Format is the name of an output format.
type Format string

// The formats.
const (
	Table    Format = "table"
	JSON     Format = "json"
	CSV      Format = "csv"
	Markdown Format = "markdown"
	Arrow    Format = "arrow"
)

// Formats lists every format in the order documentation shows them.
func Formats() []Format { return []Format{Table, JSON, CSV, Markdown, Arrow} }

// ParseFormat finds a format by its name.
func ParseFormat(name string) (Format, error) {
	for _, f := range Formats() {
		if string(f) == strings.ToLower(name) {
			return f, nil
		}
	}
	return "", errs.New(errs.Invalid, "render.format", "unknown output format "+strconv.Quote(name),
		errs.Hint("use one of table, json, csv, markdown, arrow"))
}

// Options shape what people see; programs' formats ignore them.
type Options struct {
	// Width is the number of terminal cells a table may take; 0 means no limit.
	Width int
	// MaxRows bounds the rows a table keeps in memory; 0 means 10,000. Rows beyond it are counted, not shown.
	MaxRows int
	// MaxCell bounds the width of one cell in a table; 0 means 60.
	MaxCell int
}

// Writer writes one result. Close must be called once, also for empty results: it writes headers, footers and flushes.
type Writer interface {
	Write(rec arrow.RecordBatch) error
	Close() error
}

// NewWriter returns a writer of the format for rows of the schema.
func NewWriter(w io.Writer, f Format, schema *arrow.Schema, opts Options) (Writer, error) {
	switch f {
	case Table:
		return newTable(w, schema, opts), nil
	case Markdown:
		return &markdownWriter{w: bufio.NewWriter(w), schema: schema}, nil
	case JSON:
		return newJSONWriter(w, schema), nil
	case CSV:
		return &csvWriter{w: csv.NewWriter(w), out: w, schema: schema}, nil
	case Arrow:
		return &arrowWriter{w: ipc.NewWriter(w, ipc.WithSchema(schema))}, nil
	}
	return nil, errs.Newf(errs.Invalid, "render.format", "unknown output format %q", string(f))
}

// jsonWriter streams one array of row objects.
type jsonWriter struct {
	w     *bufio.Writer
	keys  [][]byte // each `"name":`
	rows  int64
	buf   []byte
	ended bool
}

func newJSONWriter(w io.Writer, schema *arrow.Schema) *jsonWriter {
	j := &jsonWriter{w: bufio.NewWriterSize(w, 64<<10)}
	for _, name := range uniqueNames(schema) {
		j.keys = append(j.keys, append(appendJSONString(nil, name), ':'))
	}
	return j
}

func (j *jsonWriter) Write(rec arrow.RecordBatch) error {
	for r := 0; r < int(rec.NumRows()); r++ {
		b := j.buf[:0]
		if j.rows == 0 {
			b = append(b, "[\n{"...)
		} else {
			b = append(b, ",\n{"...)
		}
		for c, key := range j.keys {
			if c > 0 {
				b = append(b, ',')
			}
			b = append(b, key...)
			b = appendJSON(b, rec.Column(c), r)
		}
		b = append(b, '}')
		j.rows++
		j.buf = b
		if _, err := j.w.Write(b); err != nil {
			return err
		}
	}
	return nil
}

func (j *jsonWriter) Close() error {
	if j.ended {
		return nil
	}
	j.ended = true
	end := "\n]\n"
	if j.rows == 0 {
		end = "[]\n"
	}
	if _, err := j.w.WriteString(end); err != nil {
		return err
	}
	return j.w.Flush()
}

// csvWriter writes RFC 4180 with a header line.
type csvWriter struct {
	w      *csv.Writer
	out    io.Writer
	schema *arrow.Schema
	headed bool
	line   []byte
}

func (c *csvWriter) head() error {
	if c.headed {
		return nil
	}
	c.headed = true
	names := make([]string, c.schema.NumFields())
	for i, f := range c.schema.Fields() {
		names[i] = f.Name
	}
	if err := c.w.Write(names); err != nil {
		return err
	}
	c.w.Flush()
	return c.w.Error()
}

// Write builds lines by hand: encoding/csv cannot tell an empty string from NULL.
func (c *csvWriter) Write(rec arrow.RecordBatch) error {
	if err := c.head(); err != nil {
		return err
	}
	b := c.line[:0]
	for r := 0; r < int(rec.NumRows()); r++ {
		for i := 0; i < int(rec.NumCols()); i++ {
			if i > 0 {
				b = append(b, ',')
			}
			col := rec.Column(i)
			if col.IsNull(r) {
				continue
			}
			b = appendCSVField(b, Text(col, r))
		}
		b = append(b, '\n')
		if len(b) > 64<<10 {
			if _, err := c.out.Write(b); err != nil {
				return err
			}
			b = b[:0]
		}
	}
	c.line = b
	_, err := c.out.Write(b)
	return err
}

func (c *csvWriter) Close() error { return c.head() }

func appendCSVField(b []byte, s string) []byte {
	if s != "" && !strings.ContainsAny(s, ",\"\r\n") && s[0] != ' ' && s[len(s)-1] != ' ' {
		return append(b, s...)
	}
	b = append(b, '"')
	for i := 0; i < len(s); i++ {
		if s[i] == '"' {
			b = append(b, '"')
		}
		b = append(b, s[i])
	}
	return append(b, '"')
}

// markdownWriter writes a GitHub-flavoured table.
type markdownWriter struct {
	w      *bufio.Writer
	schema *arrow.Schema
	headed bool
}

func (m *markdownWriter) head() {
	if m.headed {
		return
	}
	m.headed = true
	m.w.WriteString("|")
	for _, f := range m.schema.Fields() {
		m.w.WriteString(" " + markdownCell(f.Name) + " |")
	}
	m.w.WriteString("\n|")
	for _, f := range m.schema.Fields() {
		if numeric(f.Type) {
			m.w.WriteString(" ---: |")
		} else {
			m.w.WriteString(" --- |")
		}
	}
	m.w.WriteString("\n")
}

func (m *markdownWriter) Write(rec arrow.RecordBatch) error {
	m.head()
	for r := 0; r < int(rec.NumRows()); r++ {
		m.w.WriteString("|")
		for c := 0; c < int(rec.NumCols()); c++ {
			m.w.WriteString(" " + markdownCell(peopleText(rec.Column(c), r)) + " |")
		}
		if _, err := m.w.WriteString("\n"); err != nil {
			return err
		}
	}
	return nil
}

func (m *markdownWriter) Close() error {
	m.head()
	return m.w.Flush()
}

func markdownCell(s string) string {
	return strings.NewReplacer("|", "\\|", "\r\n", "<br>", "\n", "<br>", "\r", "<br>").Replace(s)
}

// arrowWriter writes an Arrow IPC stream.
type arrowWriter struct{ w *ipc.Writer }

func (a *arrowWriter) Write(rec arrow.RecordBatch) error { return a.w.Write(rec) }
func (a *arrowWriter) Close() error                      { return a.w.Close() }

// uniqueNames gives the field names with later duplicates numbered, so that an object keeps every column.
func uniqueNames(schema *arrow.Schema) []string {
	seen := make(map[string]bool, schema.NumFields())
	for _, f := range schema.Fields() {
		seen[f.Name] = false
	}
	out := make([]string, schema.NumFields())
	for i, f := range schema.Fields() {
		name := f.Name
		for n := 1; seen[name]; n++ {
			name = f.Name + "_" + strconv.Itoa(n)
		}
		seen[name] = true
		out[i] = name
	}
	return out
}
