package query_test

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/overlakedb/overlake/internal/analysis"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25/primitive"
	"github.com/overlakedb/overlake/internal/index/bm25/query"
)

var rewrite = flag.Bool("rewrite", false, "write what the parsers say into testdata")

func find(t testing.TB, name string) *analysis.Analyzer {
	t.Helper()
	a, err := analysis.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func schema(t testing.TB) *query.Schema {
	s, k := find(t, "standard"), find(t, "keyword")
	return &query.Schema{Fields: []query.Field{{Name: "title", Analyzer: s}, {Name: "body", Analyzer: s}, {Name: "tag", Analyzer: k}, {Name: "plain", Analyzer: s, NoPositions: true}}}
}

// parse runs one line of the test file.
func parse(t testing.TB, kind, options, text string) (query.Node, error) {
	t.Helper()
	o := query.StringOptions{Fields: []query.FieldBoost{{Name: "title"}, {Name: "body"}}}
	for option := range strings.SplitSeq(options, ",") {
		name, value, _ := strings.Cut(option, "=")
		n, _ := strconv.Atoi(value)
		switch name {
		case "-":
		case "title":
			o.Fields = o.Fields[:1]
		case "boost":
			o.Fields[1].Boost = 2
		case "and":
			o.All = true
		case "english":
			o.Analyzer, o.Fields = "english", o.Fields[:1]
		case "msm":
			o.MinimumShouldMatch = value
		case "type":
			o.Type = query.MultiType(value)
		case "tie":
			x, _ := strconv.ParseFloat(value, 32)
			f := float32(x)
			o.TieBreaker = &f
		case "lenient":
			o.Lenient = true
		case "nolead":
			o.NoLeadingWildcard = true
		case "maxclauses":
			o.Limits.Clauses = n
		case "maxdepth":
			o.Limits.Depth = n
		case "flags":
			var err error
			if o.Flags, err = query.ParseFlags(value); err != nil {
				return nil, err
			}
		default:
			t.Fatalf("no option %q", option)
		}
	}
	if kind == "simple" {
		return query.Simple(text, o)
	}
	return query.QueryString(text, o)
}

func TestParsers(t *testing.T) {
	const file = "testdata/parse.txt"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := schema(t)
	var out strings.Builder
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		out.WriteString(line + "\n")
		if strings.HasPrefix(line, "--") {
			continue
		}
		kind, rest, _ := strings.Cut(line, " ")
		options, text, _ := strings.Cut(rest, " ")
		n, err := parse(t, kind, options, strings.Trim(text, "`"))
		var got string
		if err == nil {
			var p primitive.Node
			if p, err = query.Lower(n, s); err == nil {
				got = "    " + primitive.Describe(primitive.Rewrite(p), s.Names())
			}
		}
		if err != nil {
			got = fmt.Sprintf("    ! %s: %v", errs.KindOf(err), err)
		}
		if i+1 < len(lines) && strings.HasPrefix(lines[i+1], "    ") {
			i++
			if lines[i] != got && !*rewrite {
				t.Errorf("%s\n got %s\nwant %s", line, got, lines[i])
			}
		} else if !*rewrite {
			t.Errorf("%s:%d has no answer", file, i+1)
		}
		out.WriteString(got + "\n")
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// FuzzParsers: any text has a meaning or an error that says what is wrong; Simple gives errors of limits only. What was
// parsed can be lowered.
func FuzzParsers(f *testing.F) {
	data, err := os.ReadFile("testdata/parse.txt")
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.SplitSeq(string(data), "\n") {
		if _, text, ok := strings.Cut(line, "`"); ok {
			f.Add(strings.TrimSuffix(text, "`"))
		}
	}
	s := schema(f)
	f.Fuzz(func(t *testing.T, text string) {
		o := query.StringOptions{Fields: []query.FieldBoost{{Name: "title"}, {Name: "t*", Boost: 2}}, MinimumShouldMatch: "75%"}
		o.Limits.Clauses, o.Limits.Depth = 1000, 20
		if n, err := query.Simple(text, o); err == nil {
			if _, err := query.Lower(n, s); err != nil && !errs.Is(err, errs.Exhausted) {
				t.Fatalf("%q means %#v, which is %v", text, n, err)
			}
		} else if !errs.Is(err, errs.Exhausted) {
			t.Fatalf("%q: %v", text, err)
		}
		n, err := query.QueryString(text, o)
		if err == nil {
			_, err = query.Lower(n, s)
		}
		if err != nil && !errs.Is(err, errs.Invalid) && !errs.Is(err, errs.NotFound) && !errs.Is(err, errs.Unsupported) && !errs.Is(err, errs.Exhausted) {
			t.Fatalf("%q: %v", text, err)
		}
		if n, err := query.QueryString(text, query.StringOptions{Fields: o.Fields, Lenient: true, All: true}); err == nil {
			if _, err := query.Lower(n, s); err != nil && !errs.Is(err, errs.Exhausted) {
				t.Fatalf("lenient %q: %v", text, err)
			}
		}
	})
}

func TestFuzziness(t *testing.T) {
	for text, want := range map[string]query.Fuzziness{
		"AUTO": {}, "auto": {}, "AUTO:4,7": {Low: 4, High: 7}, "0": {Fixed: true}, "2": {Fixed: true, Edits: 2}, "1.0": {Fixed: true, Edits: 1},
	} {
		if got, err := query.ParseFuzziness(text); err != nil || got != want {
			t.Errorf("%s is %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "3", "-1", "x", "AUTO:", "AUTO:5", "AUTO:6,3", "AUTOx", "NaN"} {
		if _, err := query.ParseFuzziness(text); !errs.Is(err, errs.Invalid) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestRefused lists what Lower does not take, and why.
func TestRefused(t *testing.T) {
	s := schema(t)
	s.Limits = query.Limits{Depth: 5, Clauses: 50, Terms: 100}
	minus, long := float32(-1), strings.Repeat("a ", 60)
	deep := query.Node(query.MatchAll{})
	for range 10 {
		deep = query.Boost{Node: deep, Factor: 1}
	}
	for _, c := range []struct {
		n    query.Node
		kind errs.Kind
		want string
	}{
		{query.Match{Field: "none", Text: "a"}, errs.NotFound, "no such field"},
		{query.Match{Field: "title", Text: "a", Options: query.MatchOptions{Analyzer: "klingon"}}, errs.NotFound, "no such analyzer"},
		{query.Match{Field: "title", Text: "a", Options: query.MatchOptions{MinimumShouldMatch: "half"}}, errs.Invalid, "minimum_should_match"},
		{query.Match{Field: "title", Text: long}, errs.Exhausted, "more than 50 clauses"},
		{query.Terms{Field: "title", Texts: make([]string, 101)}, errs.Exhausted, "101 terms are more than 100"},
		{deep, errs.Exhausted, "nested deeper than 5"},
		{query.Phrase{Field: "plain", Text: "a b"}, errs.Unsupported, "no positions"},
		{query.Phrase{Field: "title", Text: "a b", Slop: -1}, errs.Invalid, "slop"},
		{query.Boost{Node: query.MatchAll{}, Factor: -1}, errs.Invalid, "boost"},
		{query.Boost{}, errs.Invalid, "a query is missing"},
		{query.Bool{Must: []query.Node{nil}}, errs.Invalid, "missing"},
		{query.Bool{Must: []query.Node{query.MatchAll{}}, MinimumShouldMatch: "x"}, errs.Invalid, "minimum_should_match"},
		{query.DisMax{TieBreaker: -1}, errs.Invalid, "tie_breaker"},
		{query.MultiMatch{Type: "worst_fields"}, errs.Invalid, "no such type"},
		{query.MultiMatch{Fields: []query.FieldBoost{{Name: "title"}}, Type: query.CrossFields, Options: query.MatchOptions{Fuzziness: &query.Fuzziness{}}}, errs.Invalid, "fuzziness is not allowed"},
		{query.Fuzzy{Field: "title", Text: "a", Fuzziness: query.Fuzziness{Fixed: true, Edits: 3}}, errs.Invalid, "fuzziness"},
		{query.Regexp{Field: "title", Pattern: "("}, errs.Invalid, "at character 2"},
		{query.FunctionScore{ScoreMode: "worst"}, errs.Invalid, "score_mode"},
		{query.FunctionScore{BoostMode: "worst"}, errs.Invalid, "boost_mode"},
		{query.FunctionScore{Functions: []query.RowFunction{{}}}, errs.Invalid, "needs a score or a weight"},
		{query.FunctionScore{Functions: []query.RowFunction{{Weight: &minus}}}, errs.Invalid, "weight"},
		{query.FunctionScore{Functions: []query.RowFunction{{Score: primitive.FieldValue{Field: "n", Modifier: "cube"}}}}, errs.Invalid, "modifier"},
		{query.FunctionScore{Functions: []query.RowFunction{{Score: primitive.Decay{Kind: primitive.Exp, Field: "n"}}}}, errs.Invalid, "scale"},
		{query.FunctionScore{MaxBoost: &minus}, errs.Invalid, "max_boost"},
		{query.MoreLikeThis{Fields: []string{"title"}}, errs.Invalid, "needs fields and texts"},
		{query.InFields{Fields: []query.FieldBoost{{Name: "title"}}, Node: query.MatchAll{}}, errs.Unsupported, "not for several fields"},
	} {
		if p, err := query.Lower(c.n, s); !errs.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%#v is %v, %v, want %s", c.n, p, err, c.want)
		}
	}
	if _, err := query.QueryString("a", query.StringOptions{}); !errs.Is(err, errs.Invalid) {
		t.Errorf("a text without fields: %v", err)
	}
	if _, err := query.ParseFlags("AND|XOR"); !errs.Is(err, errs.Invalid) || !strings.Contains(errs.HintOf(err), "WHITESPACE") {
		t.Errorf("flags: %v", err)
	}
}
