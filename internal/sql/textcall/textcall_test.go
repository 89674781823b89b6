package textcall_test

import (
	"strings"
	"testing"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25/similarity"
	"github.com/overlakedb/overlake/internal/sql/textcall"
)

func options(t *testing.T, function string, values map[string]any) textcall.Options {
	t.Helper()
	o := textcall.Options{Analyzer: "standard", Params: similarity.DefaultParams}
	for name, v := range values {
		if err := o.Set(function, name, v); err != nil {
			t.Fatalf("%s => %v: %v", name, v, err)
		}
	}
	return o
}

// TestOptions: what options refuse, by themselves and together with a syntax.
func TestOptions(t *testing.T) {
	for _, c := range []struct {
		function, name string
		value          any
		want           string
	}{
		{"bm25", "tie", "x", `bm25 has no option "tie"`},
		{"bm25", "pre", "x", `bm25 has no option "pre"`},
		{"highlight", "k1", 1.0, `highlight has no option "k1"`},
		{"match", "syntax", "lucene", `there is no syntax "lucene"`},
		{"match", "syntax", 1.5, "does not take this value"},
		{"match", "slop", -1.0, "does not take this value"},
		{"match", "slop", 1.5, "does not take this value"},
		{"match", "slop", 1e12, "does not take this value"},
		{"match", "slop", "1", "does not take this value"},
		{"match", "fuzziness", 0.5, "does not take this value"},
		{"match", "analyzer", nil, "does not take this value"},
		{"bm25", "k1", "much", "does not take this value"},
		{"highlight", "fragments", 0.0, "does not take this value"},
		{"highlight", "size", "big", "does not take this value"},
	} {
		var o textcall.Options
		if err := o.Set(c.function, c.name, c.value); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s(%s => %v): %v, want %s", c.function, c.name, c.value, err, c.want)
		}
	}
	o := options(t, "bm25", map[string]any{"operator": "and"})
	if err := o.Set("bm25", "default_operator", "or"); !errs.Is(err, errs.Invalid) {
		t.Errorf("two operators: %v", err)
	}
	for _, syntax := range textcall.Syntaxes {
		for name, value := range map[string]any{"operator": "and", "default_operator": "or", "minimum_should_match": 1.0, "slop": 2.0, "fuzziness": "AUTO", "analyzer": "english", "k1": 2.0, "b": 0.5} {
			_, err := textcall.New("body", "fox", options(t, "bm25", map[string]any{"syntax": syntax, name: value}))
			fits := map[string]string{"operator": "words query_string simple bool_prefix", "default_operator": "query_string simple", "minimum_should_match": "words query_string simple bool_prefix",
				"slop": "query_string phrase phrase_prefix", "fuzziness": "words query_string simple bool_prefix fuzzy"}
			list, some := fits[name]
			if ok := !some || strings.Contains(" "+list+" ", " "+syntax+" "); ok != (err == nil) || err != nil && (!errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), name) || errs.HintOf(err) == "") {
				t.Errorf("%s with %s: %v", syntax, name, err)
			}
		}
	}
}

// TestForms: errors of queries have their kinds, and two forms are the same where they match the same rows.
func TestForms(t *testing.T) {
	for _, c := range []struct {
		values map[string]any
		text   string
		kind   errs.Kind
	}{
		{map[string]any{"syntax": "query_string"}, "a AND (b", errs.Invalid},
		{map[string]any{"syntax": "query_string"}, "title:a", errs.NotFound},
		{map[string]any{"syntax": "regexp"}, "(", errs.Invalid},
		{map[string]any{"syntax": "regexp"}, strings.Repeat("a", 1001), errs.Exhausted},
		{map[string]any{"syntax": "fuzzy", "fuzziness": 3.0}, "a", errs.Invalid},
		{map[string]any{"operator": "xor"}, "a", errs.Invalid},
		{map[string]any{"syntax": "bool_prefix", "minimum_should_match": "many"}, "a", errs.Invalid},
		{map[string]any{"syntax": "simple", "b": 2.0}, "a", errs.Invalid},
		{map[string]any{"analyzer": "klingon"}, "a", errs.NotFound},
	} {
		if _, err := textcall.New("body", c.text, options(t, "bm25", c.values)); !errs.Is(err, c.kind) {
			t.Errorf("%v %q: %v (%v), want %v", c.values, c.text, err, errs.KindOf(err), c.kind)
		}
	}
	form := func(text string, values map[string]any) *textcall.Form {
		f, err := textcall.New("body", text, options(t, "bm25", values))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	type m = map[string]any
	for _, c := range []struct {
		a, b *textcall.Form
		same bool
	}{
		{form("fox dog", nil), form("Fox, DOG", m{"k1": 2.0}), true},
		{form("fox dog", nil), form("fox dog", m{"operator": "and"}), false},
		{form("fox dog", nil), form("fox dog", m{"minimum_should_match": 2.0}), false},
		{form("fox dog", nil), form("dog fox", nil), false},
		{form("fo*", m{"syntax": "query_string"}), form("fo", m{"syntax": "prefix"}), true},
		{form("a b", m{"syntax": "phrase"}), form("a b", m{"syntax": "phrase", "b": 0.0}), true},
		{form("a b", m{"syntax": "phrase"}), form("a b", m{"syntax": "phrase", "slop": 1.0}), false},
		{form("running", m{"syntax": "phrase"}), form("running", m{"syntax": "phrase", "analyzer": "english"}), false},
	} {
		if c.a.Same(c.b) != c.same || c.b.Same(c.a) != c.same {
			t.Errorf("%s and %s are the same: %v", c.a, c.b, !c.same)
		}
		if equal := c.a.Key() == c.b.Key(); equal != (c.same && c.a.Params == c.b.Params) {
			t.Errorf("keys of %s and %s", c.a, c.b)
		}
	}
}
