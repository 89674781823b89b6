package engine_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/overlakedb/overlake/internal/engine"
	"github.com/overlakedb/overlake/internal/errs"
)

// TestBindSeesConstants: literals and what can be computed from them are constants, columns and parameters are not.
func TestBindSeesConstants(t *testing.T) {
	db := open(t, engine.Config{})
	var mu sync.Mutex
	var seen []string
	see := func(b *engine.Binding) (func() engine.Row, error) {
		var parts []string
		for k := range b.Args() {
			if v, ok := b.Constant(k); ok {
				parts = append(parts, fmt.Sprintf("%T:%v", v, v))
			} else {
				parts = append(parts, "-")
			}
		}
		if parts[0] == "string:no" {
			return nil, errs.New(errs.Unsupported, "test.bind", "this cannot be", errs.Hint("do not"))
		}
		mu.Lock()
		seen = append(seen, strings.Join(parts, " "))
		mu.Unlock()
		n := len(parts)
		return func() engine.Row {
			return func(i int, _ []engine.Column, out *engine.Output) error {
				out.Int32(i, int32(n))
				return nil
			}
		}, nil
	}
	if err := errors.Join(
		db.RegisterScalar(engine.Scalar{Name: "see", Args: []engine.Type{engine.Text, engine.Float64, engine.FloatList}, Returns: engine.Int32, Bind: see, Nulls: true}),
		db.RegisterScalar(engine.Scalar{Name: "sees", Args: []engine.Type{engine.Text, engine.Int64}, Varargs: true, Returns: engine.Int32, Bind: see})); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		sql  string
		args []any
		saw  string
		got  string
	}{
		{"SELECT see('a' || 'b', 1 + 0.5, [1, 2.5])", nil, "string:ab float64:1.5 []float32:[1 2.5]", "3"},
		{"SELECT see(i::VARCHAR, i, [i]) FROM range(2) t(i)", nil, "- - -", "3 3"},
		{"SELECT see(NULL, NULL, [1]) FROM range(1)", nil, "<nil>:<nil> <nil>:<nil> []float32:[1]", "3"},
		{"SELECT see($1, $2, $3)", []any{"p", 2.5, []float32{3, 4}}, "- - -", "3"},
		{"SELECT sees('x')", nil, "string:x", "1"},
		{"SELECT sees('x', 1, 2, i) FROM range(1) t(i)", nil, "string:x int64:1 int64:2 -", "4"},
	} {
		seen = nil
		var args []engine.Arg
		for _, a := range c.args {
			args = append(args, engine.Arg{Value: a})
		}
		want(t, []string{strings.Join(rows(t, db, c.sql, args...), " ")}, c.got)
		if len(seen) == 0 || seen[len(seen)-1] != c.saw {
			t.Errorf("%s: bind saw %q, want %q last", c.sql, seen, c.saw)
		}
	}
	_, err := tryRows(t.Context(), db, "SELECT see('no', 1, [])")
	if !errs.Is(err, errs.Unsupported) || errs.HintOf(err) != "do not" || err.Error() != "this cannot be" {
		t.Errorf("an error of Bind gave %v (%v)", err, errs.KindOf(err))
	}
}

// TestScalarRules: NULLs, volatile functions, errors with a kind, and what a broken definition gives.
func TestScalarRules(t *testing.T) {
	db := open(t, engine.Config{})
	n := 0
	count := func(i int, _ []engine.Column, out *engine.Output) error { n++; out.Int32(i, int32(n)); return nil }
	text := []engine.Type{engine.Text}
	if err := errors.Join(
		db.RegisterScalar(engine.Scalar{Name: "ticks", Returns: engine.Int32, Row: count, Volatile: true}),
		db.RegisterScalar(engine.Scalar{Name: "null_is", Args: text, Returns: engine.Bool, Nulls: true, Row: func(i int, a []engine.Column, out *engine.Output) error {
			out.Bool(i, a[0].Null(i))
			return nil
		}}),
		db.RegisterScalar(engine.Scalar{Name: "fails", Args: text, Returns: engine.Bool, Row: func(int, []engine.Column, *engine.Output) error {
			return errs.New(errs.Exhausted, "test", "too much of it", errs.Hint("less"))
		}})); err != nil {
		t.Fatal(err)
	}
	want(t, rows(t, db, "SELECT count(DISTINCT ticks()) FROM range(10)"), "10")
	want(t, rows(t, db, "SELECT null_is(s) FROM (VALUES ('a'), (NULL)) t(s)"), "false", "true")
	_, err := tryRows(t.Context(), db, "SELECT fails(s) FROM (VALUES ('a')) t(s)")
	if e, ok := engine.AsSQLError(err); !ok || !errs.Is(err, errs.Exhausted) || errs.HintOf(err) != "less" || err.Error() != "too much of it" {
		t.Errorf("got %v (%v), %v", err, errs.KindOf(err), e)
	}
	want(t, rows(t, db, "SELECT TRY(fails('a')) IS NULL"), "true")
	for _, f := range []engine.Scalar{
		{Name: "x", Returns: engine.Bool}, {Name: "x", Returns: engine.Bool, Row: count, Start: func() engine.Row { return count }},
		{Name: "x", Returns: engine.Bool, Row: count, Varargs: true},
	} {
		if err := db.RegisterScalar(f); !errs.Is(err, errs.Internal) {
			t.Errorf("%+v gave %v", f, err)
		}
	}
}

// TestBatch: a function that takes a batch at once sees the rows without NULL, is told when nobody waits, and fails with its kind.
func TestBatch(t *testing.T) {
	db := open(t, engine.Config{})
	text := []engine.Type{engine.Text, engine.Int64}
	var largest atomic.Int64
	if err := errors.Join(
		db.RegisterScalar(engine.Scalar{Name: "sizes", Args: text, Returns: engine.Int32, Batch: func(rows []int, a []engine.Column, out *engine.Output, ended func() error) error {
			for _, i := range rows {
				if a[0].Null(i) || a[1].Null(i) {
					return errs.New(errs.Internal, "test", "a row with NULL")
				}
				out.Int32(i, int32(len(a[0].Text(i)))+int32(a[1].Int64(i)))
			}
			largest.Store(max(largest.Load(), int64(len(rows))))
			return ended()
		}}),
		db.RegisterScalar(engine.Scalar{Name: "batch_fails", Args: text[:1], Returns: engine.Bool, Batch: func([]int, []engine.Column, *engine.Output, func() error) error {
			return errs.New(errs.Exhausted, "test", "too much of it")
		}})); err != nil {
		t.Fatal(err)
	}
	want(t, rows(t, db, "SELECT sizes(s, 10) FROM (VALUES ('a'), (NULL), ('abc'), ('')) t(s)"), "11", "(null)", "13", "10")
	want(t, rows(t, db, "SELECT sizes('abc', 1), sizes(NULL, 1)"), "4|(null)")
	want(t, rows(t, db, "SELECT count(n), sum(n) FROM (SELECT sizes(CASE WHEN i % 3 > 0 THEN repeat('x', i % 5) END, 1) AS n FROM range(30000) t(i))"), "20000|60000")
	if n := largest.Load(); n < 1000 {
		t.Errorf("the largest batch had %d rows", n)
	}
	if _, err := tryRows(t.Context(), db, "SELECT batch_fails(s) FROM (VALUES ('a')) t(s)"); !errs.Is(err, errs.Exhausted) || err.Error() != "too much of it" {
		t.Errorf("got %v", err)
	}
	want(t, rows(t, db, "SELECT count(batch_fails(s)) FROM (SELECT NULL::VARCHAR AS s FROM range(10))"), "0")
	given := make(chan struct{})
	if err := db.RegisterScalar(engine.Scalar{Name: "waits", Args: []engine.Type{engine.Int64}, Returns: engine.Bool, Batch: func(rows []int, a []engine.Column, out *engine.Output, ended func() error) error {
		close(given)
		for {
			if err := ended(); err != nil {
				return err
			}
			runtime.Gosched()
		}
	}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-given; cancel() }()
	if _, err := tryRows(ctx, db, "SELECT waits(i) FROM range(1) t(i)"); !errs.Is(err, errs.Canceled) {
		t.Errorf("a query that was given up gave %v", err)
	}
}

// longest is an aggregate: the longest text, the first of equals in order, with its length.
var longest = engine.Aggregate{
	Name: "longest", Args: []engine.Type{engine.Text}, Returns: engine.Text,
	New: func() any { return new(string) },
	Add: func(state any, i int, args []engine.Column) error {
		s := state.(*string)
		switch v := args[0].Text(i); {
		case v == "bad":
			return errs.New(errs.Invalid, "test", "a bad text")
		case v == "panic":
			panic("at the aggregate")
		case len(v) > len(*s), len(v) == len(*s) && v < *s:
			*s = strings.Clone(v)
		}
		return nil
	},
	Merge: func(state, other any) error {
		a, b := state.(*string), *other.(*string)
		if len(b) > len(*a) || len(b) == len(*a) && b < *a {
			*a = b
		}
		return nil
	},
	Done: func(state any, i int, out *engine.Output) error {
		out.Text(i, *state.(*string))
		return nil
	},
}

func TestAggregate(t *testing.T) {
	before := engine.FunctionHandles()
	db, err := engine.Open(engine.Config{Threads: 4})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.RegisterAggregate(longest); err != nil {
		t.Fatal(err)
	}
	want(t, rows(t, db, "SELECT longest(s) FROM (VALUES ('a'), ('abc'), (NULL), ('xyz')) t(s)"), "abc")
	want(t, rows(t, db, "SELECT longest(s), longest('c') FROM (SELECT 'a' AS s WHERE false)"), "(null)|(null)")
	want(t, rows(t, db, "SELECT g, longest(s) FROM (SELECT i % 3 AS g, 'text ' || i AS s FROM range(1000000) t(i)) GROUP BY g ORDER BY g"),
		"0|text 100002", "1|text 100000", "2|text 100001")
	want(t, rows(t, db, "SELECT count(*), min(len(l)) FROM (SELECT longest('text ' || i) AS l FROM range(100000) t(i) GROUP BY i // 2)"), "50000|6")
	want(t, rows(t, db, "SELECT longest(s) OVER (ORDER BY i ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM (VALUES (1, 'abc'), (2, 'b'), (3, 'cd')) t(i, s)"), "abc", "abc", "cd")
	want(t, rows(t, db, "SELECT bool_and(l = m) FROM (SELECT longest('t' || x) OVER w AS l, min('t' || x) FILTER (x > 99) OVER w AS m FROM "+
		"(SELECT i, i * 7919 % 1000 AS x FROM range(5000) t(i)) WINDOW w AS (ORDER BY i ROWS BETWEEN 300 PRECEDING AND 300 FOLLOWING))"), "true")
	want(t, rows(t, db, "SELECT longest(DISTINCT s), longest(s) FILTER (s < 'b') FROM (VALUES ('a'), ('abc'), ('xyzz')) t(s)"), "xyzz|abc")
	if _, err := tryRows(t.Context(), db, "SELECT longest('bad')"); !errs.Is(err, errs.Invalid) || err.Error() != "a bad text" {
		t.Errorf("an error gave %v", err)
	}
	if _, err := tryRows(t.Context(), db, "SELECT longest('panic')"); !errs.Is(err, errs.Internal) {
		t.Errorf("a panic gave %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if left := engine.FunctionHandles() - before; left != 0 {
		t.Errorf("%d handles are left after Close", left)
	}
}
