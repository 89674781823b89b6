// Package conformance runs suites of other projects' behaviour against the engine.
package conformance

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/overlakedb/overlake"
	"github.com/overlakedb/overlake/internal/testenv"
	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/pgvector"
	"github.com/overlakedb/overlake/test/ask"
)

// pgCase is one line of the collection: what pgvector answered to a statement.
type pgCase struct {
	ID, SQL, Error, Message, Cmp string
	Setup, Needs                 []string
	Value                        *string
	Rows                         [][]*string
}

// met are the needs that this version meets.
var met = map[string]bool{"array": true, "generate_series": true, "halfvec": true, "sparsevec": true, "bit": true, "ddl": true, "dml": true, "index_ddl": true, "set": true}

// pgExceptions are cases that answer differently, with the reason. An entry that begins to pass fails the test.
var pgExceptions = readExceptions()

func readExceptions() map[string]string {
	out := map[string]string{}
	data, err := os.ReadFile("testdata/pgvector-exceptions.txt")
	if err != nil {
		return out
	}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		id, reason, _ := strings.Cut(line, " ")
		out[id] = strings.TrimSpace(reason)
	}
	return out
}

func TestPgvector(t *testing.T) {
	data, err := os.ReadFile(testenv.Shared(t, "conformance", "pgvector", "cases.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	passed, applicable, excepted := 0, 0, 0
	for line := range strings.Lines(string(data)) {
		var c pgCase
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatal(err)
		}
		ready := true
		for _, n := range c.Needs {
			ready = ready && met[n]
		}
		if !ready {
			continue
		}
		applicable++
		got, problem := runCase(t, c)
		switch reason := pgExceptions[c.ID]; {
		case problem == "" && reason != "":
			t.Errorf("%s passes now: take it off the list", c.ID)
		case problem == "":
			passed++
		case reason != "":
			excepted++
		default:
			t.Errorf("%s %s\n  got %s\n  %s", c.ID, c.SQL, got, problem)
		}
	}
	t.Logf("pgvector: %d passed / %d applicable, %d exceptions", passed, applicable, excepted)
}

func runCase(t *testing.T, c pgCase) (got, problem string) {
	t.Helper()
	ctx := context.Background()
	db := shared(t)
	if len(c.Setup) > 0 {
		db = ask.Open(t, "mem://"+c.ID, overlake.Options{})
	}
	for _, s := range c.Setup {
		if s == "SET enable_seqscan = off" { // the setting of PostgreSQL's that says what ours does
			s = "SET use_index = 'on'"
		}
		if _, err := ask.Rows(ctx, db, s, value); err != nil {
			return err.Error(), "setup failed: " + s
		}
	}
	rows, err := ask.Rows(ctx, db, c.SQL, value)
	if c.Error != "" {
		if err == nil {
			return flat(rows), "want the error " + c.Message
		}
		// The wording is pgvector's where the value is at fault; a missing operator is reported in the engine's words.
		if wordless[c.Error] || strings.Contains(err.Error(), c.Message) {
			return "", ""
		}
		return err.Error(), "want the error " + c.Message
	}
	if err != nil {
		return err.Error(), "want an answer"
	}
	if c.Cmp == "rows" || c.Rows != nil {
		if len(rows) != len(c.Rows) {
			return flat(rows), "want " + strconv.Itoa(len(c.Rows)) + " rows"
		}
		for i, r := range c.Rows {
			for k, want := range r {
				if !same(rows[i][k], want, "float") {
					return flat(rows), "want row " + strconv.Itoa(i) + " " + text(want)
				}
			}
		}
		return "", ""
	}
	if len(rows) != 1 || len(rows[0]) != 1 {
		return flat(rows), "want one value"
	}
	if !same(rows[0][0], c.Value, c.Cmp) {
		return text(rows[0][0]), "want " + text(c.Value)
	}
	return "", ""
}

var wordless = map[string]bool{"no_such_function_or_operator": true, "cannot_cast": true, "ambiguous": true}

func text(s *string) string {
	if s == nil {
		return "NULL"
	}
	return *s
}

func flat(rows [][]*string) string {
	var b strings.Builder
	for _, r := range rows {
		for _, v := range r {
			b.WriteString(text(v) + " | ")
		}
		b.WriteString("; ")
	}
	return b.String()
}

func same(got, want *string, cmp string) bool {
	if got == nil || want == nil {
		return got == nil && want == nil
	}
	if *got == *want {
		return true
	}
	switch cmp {
	case "float":
		a, err1 := strconv.ParseFloat(*got, 64)
		b, err2 := strconv.ParseFloat(*want, 64)
		if err1 != nil || err2 != nil {
			return false
		}
		return math.IsNaN(a) && math.IsNaN(b) || a == b || math.Abs(a-b) <= 1e-6*math.Max(1, math.Abs(b)) || math.Abs(a-b) <= 1e-6*math.Abs(b)
	case "vector":
		a, err1 := pgvector.Vector.Parse(*got, nil)
		b, err2 := pgvector.Vector.Parse(*want, nil)
		if err1 != nil || err2 != nil || len(a) != len(b) {
			return false
		}
		for i := range a {
			if math.Abs(float64(a[i]-b[i])) > 1e-6*math.Max(1, math.Abs(float64(b[i]))) {
				return false
			}
		}
		return true
	case "sparse":
		return sparse(*got, *want)
	case "array":
		norm := func(s string) string { return strings.NewReplacer("{", "[", "}", "]", " ", "", ".0", "").Replace(s) }
		return norm(*got) == norm(*want)
	}
	return false
}

// sparse compares values of sparsevec: the same elements, each within one part in a million.
func sparse(got, want string) bool {
	var a, b vec.Sparse
	if pgvector.ParseSparse(got, &a) != nil || pgvector.ParseSparse(want, &b) != nil || a.Dim != b.Dim || !slices.Equal(a.Index, b.Index) {
		return false
	}
	for i := range a.Value {
		if math.Abs(float64(a.Value[i]-b.Value[i])) > 1e-6*math.Max(1, math.Abs(float64(b.Value[i]))) {
			return false
		}
	}
	return true
}

var db *overlake.DB

func shared(t *testing.T) *overlake.DB {
	t.Helper()
	if db == nil {
		var err error
		if db, err = overlake.Open(context.Background(), "mem://conformance", overlake.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

// value is a value as PostgreSQL prints it.
func value(_ arrow.Field, a arrow.Array, i int) string {
	s := a.ValueStr(i)
	switch a := a.(type) {
	case *array.Float64:
		s = strconv.FormatFloat(a.Value(i), 'g', -1, 64)
		if math.IsInf(a.Value(i), 0) {
			s = strings.Replace(s, "Inf", "Infinity", 1)
			s = strings.TrimPrefix(s, "+")
		}
	case *array.List:
		if v, ok := a.ListValues().(*array.Float32); ok {
			lo, hi := a.ValueOffsets(i)
			s = pgvector.Format(v.Float32Values()[lo:hi])
		}
	}
	return s
}
