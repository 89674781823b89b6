package sql

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/row"
	"github.com/overlakedb/overlake/internal/sql/lex"
	"github.com/overlakedb/overlake/internal/sql/tree"
)

// The columns by which a query of its own tells rows.
const (
	placeFile = "overlake place: file"
	placeRow  = "overlake place: row"
)

// places is what a query of its own adds to a table.
type places struct {
	at   int // byte offset of the table's name
	plan *lake.Plan
}

// qualifying asks the engine which rows of a table take part in the answer of FROM and WHERE, by the place of their file in
// the plan; nil when it cannot be asked.
func (r *resolver) qualifying(n node, s *source, sc *scope, plan *lake.Plan, column string) ([]*row.Bitmap, error) {
	return r.qualifyingBy(n, s, sc, plan, column, "")
}

// qualifyingBy is qualifying with text behind FROM and WHERE.
func (r *resolver) qualifyingBy(n node, s *source, sc *scope, plan *lake.Plan, column, more string) ([]*row.Bitmap, error) {
	text, shift, ok := r.fromWhere(s, sc, column)
	text += more
	if !ok || r.q.restless(n["from_table"]) || r.q.restless(n["where_clause"]) || wholeRows(n["from_table"], s, false) || wholeRows(n["where_clause"], s, false) {
		return nil, nil
	}
	q := r.q
	t := lex.QuoteIdent(s.name)
	head := "SELECT " + t + "." + lex.QuoteIdent(placeFile) + ", " + t + "." + lex.QuoteIdent(placeRow) + " "
	with, ok := r.asideWith(tree.Location(s.node), sc, text)
	if !ok {
		return nil, nil
	}
	key, err := q.withValues(with + text)
	if err != nil {
		return nil, err
	}
	key += "\x00" + strconv.Itoa(tree.Location(s.node)-shift)
	if sets, ok := q.rowsOf[key]; ok {
		return sets, nil
	}
	at := &places{at: len(with) + len(head) + tree.Location(s.node) - shift, plan: plan}
	rows, done, err := q.ask(with+head+text, at)
	if rows == nil || err != nil {
		return nil, err
	}
	defer done()
	if at.plan != nil {
		return nil, nil // the table was not met, or its files are not for the engine to read
	}
	sets := make([]*row.Bitmap, len(plan.Files))
	for i := range sets {
		sets[i] = row.NewBitmap()
	}
	var run []int64
	for rows.Next() {
		files, ok1 := integers(rows.Record().Column(0))
		at, ok2 := integers(rows.Record().Column(1))
		if !ok1 || !ok2 {
			return nil, errs.New(errs.Internal, "sql.nearest", "the places of rows are no numbers")
		}
		for i := 0; i < len(files); {
			f := files[i]
			run = run[:0]
			for ; i < len(files) && files[i] == f; i++ {
				run = append(run, at[i])
			}
			if f >= 0 && f < int64(len(sets)) {
				sets[f].AddMany(run)
			}
		}
	}
	if err := rows.Err(); err != nil {
		return nil, canceled(err)
	}
	if q.rowsOf == nil {
		q.rowsOf = map[string][]*row.Bitmap{}
	}
	q.rowsOf[key] = sets
	return sets, nil
}

// withValues is a text with the values of its parameters.
func (q *statement) withValues(text string) (string, error) {
	tokens, err := lex.Tokens(text)
	if err != nil {
		return "", err
	}
	var edits []lex.Edit
	for _, t := range tokens {
		if t.Kind == lex.Param {
			v, _ := q.param(strings.Trim(t.Text[1:], `"`))
			edits = append(edits, lex.Edit{Start: t.Start, End: t.End, New: fmt.Sprintf("\x01%T %v\x01", v, v)})
		}
	}
	return lex.Splice(text, edits), nil
}

// canceled keeps the end of the whole statement; another failure of a query aside is not the user's.
func canceled(err error) error {
	if errs.Is(err, errs.Canceled) {
		return err
	}
	return nil
}

// integers are the values of a column of whole numbers; NULL is -1.
func integers(a arrow.Array) (out []int64, ok bool) {
	out = make([]int64, a.Len())
	for i := range out {
		if a.IsNull(i) {
			out[i] = -1
			continue
		}
		switch a := a.(type) {
		case *array.Int64:
			out[i] = a.Value(i)
		case *array.Uint64:
			out[i] = int64(a.Value(i))
		case *array.Int32:
			out[i] = int64(a.Value(i))
		case *array.Uint32:
			out[i] = int64(a.Value(i))
		default:
			return nil, false
		}
	}
	return out, true
}

// fromWhere is the text of FROM and WHERE of the SELECT that reads a table, without a first condition that a column is not
// NULL, and the offset that its places have lost.
func (r *resolver) fromWhere(s *source, sc *scope, column string) (text string, shift int, ok bool) {
	from, where, end, ok := lex.FromWhere(r.tokens, r.token(tree.Location(s.node)))
	if !ok {
		return "", 0, false
	}
	lo, hi := r.tokens[from].Start, r.tokens[end-1].End
	text = r.text[lo:hi]
	if where > 0 {
		// WHERE column IS NOT NULL AND …, as vector_search writes it: the vectors need not be read for it.
		k := where + 1
		for k+2 < end && r.tokens[k+1].Is(".") {
			k += 2
		}
		mine := len(sc.sources) == 1
		if k > where+1 {
			mine = strings.EqualFold(r.tokens[k-2].Name(), s.name)
		}
		if mine && k+4 < end && r.tokens[k].IsIdent() && strings.EqualFold(r.tokens[k].Name(), column) && r.tokens[k+1].Is("IS") && r.tokens[k+2].Is("NOT") && r.tokens[k+3].Is("NULL") && r.tokens[k+4].Is("AND") {
			cut := r.tokens[where].End
			text = r.text[lo:cut] + " " + r.text[r.tokens[k+4].End:hi]
		}
	}
	return text, lo, true
}

// placed is a table with the places of its live rows in the files of a plan.
func (q *statement) placed(t *lake.Table, ref lake.Ref, plan *lake.Plan) (string, bool, error) {
	if _, direct, err := q.paths(t, plan); err != nil || !direct || shadows(plan.Schema) {
		return "", false, err
	}
	read, _, err := q.read(t, ref, plan, ", file_index AS "+lex.QuoteIdent(placeFile)+", file_row_number AS "+lex.QuoteIdent(placeRow), nil)
	return "(" + read + ")", err == nil, err
}
