// Package ask answers one question: what does a statement answer, value by value, as text?
//
// Suites that compare answers share it, so that they read the engine in one way.
package ask

import (
	"context"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/overlakedb/overlake"
	"github.com/overlakedb/overlake/internal/render"
)

// Open opens a warehouse until the test ends; a failure to close it fails the test.
func Open(t testing.TB, warehouse string, o overlake.Options) *overlake.DB {
	t.Helper()
	db, err := overlake.Open(t.Context(), warehouse, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// Asker is a DB or a Session.
type Asker interface {
	SQL(ctx context.Context, statement string, args ...any) (*overlake.Rows, error)
}

// Value prints a value that is not NULL.
type Value func(f arrow.Field, a arrow.Array, i int) string

// Rows runs statements and gives the rows of the last one. NULL is nil; everything else is what value makes of it.
func Rows(ctx context.Context, a Asker, sql string, value Value) ([][]*string, error) {
	rows, err := a.SQL(ctx, sql)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	return Read(rows, value)
}

// Read gives what is left of rows.
func Read(rows *overlake.Rows, value Value) ([][]*string, error) {
	var out [][]*string
	for rows.Next() {
		rec := rows.RecordBatch()
		for i := range int(rec.NumRows()) {
			r := make([]*string, rec.NumCols())
			for c := range r {
				if a := rec.Column(c); a.IsValid(i) {
					s := strings.Clone(value(rec.Schema().Field(c), a, i))
					r[c] = &s
				}
			}
			out = append(out, r)
		}
	}
	return out, rows.Err()
}

// Text prints a value as the program does.
func Text(_ arrow.Field, a arrow.Array, i int) string { return render.Text(a, i) }
