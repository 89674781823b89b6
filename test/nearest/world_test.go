// Package nearest asks statements of ORDER BY distance LIMIT n with and without indexes, and compares the answers.
package nearest

import (
	"context"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/overlakedb/overlake"
	"github.com/overlakedb/overlake/internal/render"
	"github.com/overlakedb/overlake/test/ask"
)

// world is a warehouse with a session whose statements may be asked twice.
type world struct {
	testing.TB
	db *overlake.DB
	s  *overlake.Session
}

func newWorld(t testing.TB) *world {
	t.Helper()
	db := ask.Open(t, t.TempDir(), overlake.Options{IndexByHand: true, Threads: 2, Events: func(e overlake.Event) { t.Errorf("event without damage: %+v", e) }})
	return &world{t, db, db.Session()}
}

func (w *world) do(text string) {
	w.Helper()
	if _, err := w.rows(text); err != nil {
		w.Fatalf("%.500s: %v", text, err)
	}
}

// exact prints floats with all their digits.
func exact(f arrow.Field, a arrow.Array, i int) string {
	if f.Type.ID() == arrow.FLOAT64 || f.Type.ID() == arrow.FLOAT32 {
		if v := a.ValueStr(i); v != "-0" {
			return v
		}
		return "0"
	}
	return render.Text(a, i)
}

// rows gives the rows of a statement as text, the values with tabs between.
func (w *world) rows(text string, args ...any) ([]string, error) {
	rows, err := w.s.SQL(context.Background(), text, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all, err := ask.Read(rows, exact)
	out := make([]string, len(all))
	for i, r := range all {
		var b strings.Builder
		for k, v := range r {
			if k > 0 {
				b.WriteByte('\t')
			}
			if v == nil {
				b.WriteString("NULL")
			} else {
				b.WriteString(*v)
			}
		}
		out[i] = b.String()
	}
	return out, err
}

// explain gives what EXPLAIN says of indexes of vectors; "" when none is used.
func (w *world) explain(text string, args ...any) string {
	w.Helper()
	lines, err := w.rows("EXPLAIN "+text, args...)
	if err != nil {
		w.Fatalf("EXPLAIN %s: %v", text, err)
	}
	var used []string
	for _, l := range lines {
		if strings.HasPrefix(l, "vector ") && strings.Contains(l, ": index ") {
			used = append(used, l)
		}
	}
	return strings.Join(used, "\n")
}
