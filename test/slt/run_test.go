package slt_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/overlakedb/overlake/test/slt"
)

// echo answers "rows a b|c NULL" with the rows it is told, "fail x" with an error, "wrote 3" with a count.
type echo struct{}

func (echo) Exec(_ context.Context, sql string) (slt.Answer, error) {
	verb, rest, _ := strings.Cut(sql, " ")
	switch verb {
	case "fail":
		return slt.Answer{}, errors.New(rest)
	case "wrote":
		return slt.Answer{Count: 3}, nil
	}
	a := slt.Answer{Count: -1}
	for _, row := range strings.Split(rest, "|") {
		var r []*string
		for _, v := range strings.Fields(row) {
			v = strings.ReplaceAll(v, "_", "\n")
			switch v {
			case "null":
				r = append(r, nil)
			case "nothing":
				v = ""
				r = append(r, &v)
			default:
				r = append(r, &v)
			}
		}
		a.Rows = append(a.Rows, r)
	}
	for range a.Rows[0] {
		a.Columns = append(a.Columns, "c")
	}
	return a, nil
}

func (echo) Snapshot(_ context.Context, table string) (string, string, error) {
	return "17", "of-" + table, nil
}

func run(t *testing.T, script string) slt.Result {
	t.Helper()
	res, err := slt.Run(t.Context(), script, echo{}, slt.Options{Name: "echo", Vars: map[string]string{"dir": "here"}})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestPasses(t *testing.T) {
	res := run(t, `# a comment
statement ok
rows 1

statement count 3
wrote it

statement error too (much|many)
fail with too many;

query TIR
rows a 1 0.3333333|null 2 NaN
----
a	1	0.33333331
NULL	2	NaN

query T rowsort same
rows b|a
----
a
b

query T nosort same
rows a|b
----
a
b

query TT valuesort
rows b c|a d
----
a
b
c
d

query TT
rows x_y nothing|NULL (empty)
----
x\ny	(empty)
\NULL	\(empty)

let v
rows 42

query I
rows ${v}
----
42

snapshot s docs

query T
rows ${s}-${s.time}-${dir}
----
17-of-docs-here

skipif echo
statement ok
fail this is left out

onlyif other
statement ok
fail this too

fails a known defect
query T
rows a
----
b

halt

statement ok
fail never reached
`)
	if len(res.Failures) != 0 {
		t.Fatalf("failures: %q", res.Failures)
	}
	if len(res.Defects) != 1 || !strings.Contains(res.Defects[0], "a known defect") {
		t.Fatalf("defects: %q", res.Defects)
	}
	if res.Passed != 12 || res.Skipped != 2 {
		t.Fatalf("%d passed, %d skipped", res.Passed, res.Skipped)
	}
}

// TestFails proves that every kind of expectation can fail.
func TestFails(t *testing.T) {
	for name, c := range map[string][2]string{
		"ok":             {"statement ok\nfail boom", "failed: boom"},
		"count":          {"statement count 2\nwrote it", "wrote 3 rows, want 2"},
		"error missing":  {"statement error x\nrows 1", "succeeded with 1 rows"},
		"error other":    {"statement error x\nfail y", "got the error y"},
		"value":          {"query T\nrows a\n----\nb", "row 1, column 1: got a, want b"},
		"order":          {"query T\nrows a|b\n----\nb\na", "row 1, column 1: got a, want b"},
		"fewer rows":     {"query T\nrows a|b\n----\na", "got 2 rows, want 1"},
		"no rows":        {"query T\nrows a", "got 1 rows, want 0"},
		"columns":        {"query TT\nrows a\n----\na	b", "got 1 columns (c), want 2"},
		"whole number":   {"query I\nrows 1.5\n----\n1.5", "1.5 is no whole number"},
		"null as text":   {"query T\nrows null\n----\n\\NULL", "got NULL, want \\NULL"},
		"real":           {"query R\nrows 1.00001\n----\n1", "got 1.00001, want 1"},
		"infinity":       {"query R\nrows Infinity\n----\n1", "got Infinity, want 1"},
		"text is no num": {"query T\nrows 1.0\n----\n1", "got 1.0, want 1"},
		"label":          {"query T nosort l\nrows a\n----\na\n\nquery T nosort l\nrows b\n----\nb", "label l had another answer"},
		"variable":       {"statement ok\nrows ${none}", "there is no variable ${none}"},
		"mended":         {"fails for a reason\nstatement ok\nrows 1", "passes now"},
		"values":         {"query TT valuesort\nrows b a\n----\na\nc", "row 2, column 1: got b, want c"},
	} {
		t.Run(name, func(t *testing.T) {
			res := run(t, c[0])
			if len(res.Failures) == 0 || !strings.Contains(res.Failures[len(res.Failures)-1], c[1]) {
				t.Fatalf("failures %q, want %q", res.Failures, c[1])
			}
		})
	}
}

func TestParseErrors(t *testing.T) {
	for _, script := range []string{
		"something else\nSELECT 1", "query X\nSELECT 1", "query T sideways label\nSELECT 1", "statement ok", "statement error (\nSELECT 1",
		"statement ok\nSELECT 1\n----\n1", "skipif\nstatement ok\nSELECT 1", "let\nSELECT 1", "fails\nstatement ok\nSELECT 1", "snapshot s", "statement maybe\nSELECT 1",
	} {
		if _, err := slt.Parse(script); err == nil {
			t.Errorf("no error for %q", script)
		}
	}
}

func TestRewrite(t *testing.T) {
	script := `# keep me
query T
rows a|b
----
wrong

query T
rows c

statement error x
fail y

query R
rows 0.5
----
0.5000000001
`
	want := `# keep me
query T
rows a|b
----
a
b

query T
rows c
----
c

statement error x
fail y

query R
rows 0.5
----
0.5000000001
`
	if got := run(t, script).Rewritten; got != want {
		t.Fatalf("got:\n%s", got)
	}
}
