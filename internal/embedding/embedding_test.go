package embedding_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/overlakedb/overlake/internal/declared"
	"github.com/overlakedb/overlake/internal/embedding"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/testenv"
	"github.com/overlakedb/overlake/internal/vec/pgvector"
)

// TestCatalogue holds the form of the catalogue: what a slip of the pen would break.
func TestCatalogue(t *testing.T) {
	seen := map[string]string{}
	for _, m := range embedding.Models() {
		for _, name := range append([]string{strings.ToLower(m.Name)}, m.Aliases...) {
			if name != strings.ToLower(name) || name == "" {
				t.Errorf("%s: the alias %q is not in lower case", m.Name, name)
			}
			if other, twice := seen[name]; twice {
				t.Errorf("%s is a name of %s and %s", name, other, m.Name)
			}
			seen[name] = m.Name
			if found, ok := embedding.Find(strings.ToUpper(name)); !ok || found != m {
				t.Errorf("%s is not found as %s", m.Name, name)
			}
		}
		if m.Dim < 1 || m.Dim > pgvector.MaxDim || m.Min < 0 || m.Min > m.Dim || m.Min > 0 && len(m.Other) > 0 {
			t.Errorf("%s: dimensions %d, from %d, and %v", m.Name, m.Dim, m.Min, m.Other)
		}
		if !slices.IsSorted(m.Other) || slices.Contains(m.Other, m.Dim) {
			t.Errorf("%s: other dimensions %v", m.Name, m.Other)
		}
		for _, d := range append([]int{m.Dim}, m.Other...) {
			if !m.Makes(d) {
				t.Errorf("%s does not make %d", m.Name, d)
			}
		}
		if m.Makes(0) || m.Makes(7777) {
			t.Errorf("%s makes anything", m.Name)
		}
	}
	if _, ok := embedding.Find("no-such-model"); ok {
		t.Error("a model that nobody knows is found")
	}
}

// TestKnown looks at facts one by one, as the makers publish them.
func TestKnown(t *testing.T) {
	for _, c := range []struct {
		name   string
		dims   string
		makes  []int
		not    []int
		query  string
		unit   embedding.Answer
		called string
	}{
		{"bge-small-en-v1.5", "384", []int{384}, []int{383, 768}, "Represent this sentence for searching relevant passages: ", embedding.Yes, "BAAI/bge-small-en-v1.5"},
		{"intfloat/E5-Base-v2", "768", []int{768}, []int{384}, "query: ", embedding.Yes, "intfloat/e5-base-v2"},
		{"text-embedding-3-small", "1 to 1536", []int{1, 512, 1536}, []int{0, 1537}, "", embedding.Yes, "text-embedding-3-small"},
		{"text-embedding-3-large", "1 to 3072", []int{256, 3072}, []int{3073}, "", embedding.Yes, "text-embedding-3-large"},
		{"text-embedding-ada-002", "1536", []int{1536}, []int{512}, "", embedding.Yes, "text-embedding-ada-002"},
		{"nomic-embed-text-v1.5", "64 to 768", []int{64, 768}, []int{63, 769}, "search_query: ", embedding.Unstated, "nomic-ai/nomic-embed-text-v1.5"},
		{"embeddinggemma-300m", "128, 256, 512 or 768", []int{128, 768}, []int{384}, "task: search result | query: ", embedding.Yes, "google/embeddinggemma-300m"},
		{"embed-v4.0", "256, 512, 1024 or 1536", []int{256, 1536}, []int{768}, "", embedding.Unstated, "embed-v4.0"},
		{"voyage-3.5", "256, 512, 1024 or 2048", []int{2048}, []int{1536}, "", embedding.Yes, "voyage-3.5"},
	} {
		m, ok := embedding.Find(c.name)
		if !ok {
			t.Errorf("%s is not known", c.name)
			continue
		}
		if m.Name != c.called || m.Dims() != c.dims || m.QueryPrefix != c.query || m.Unit != c.unit {
			t.Errorf("%s: %+v, dimensions %s", c.name, m, m.Dims())
		}
		for _, d := range c.makes {
			if !m.Makes(d) {
				t.Errorf("%s does not make %d", c.name, d)
			}
		}
		for _, d := range c.not {
			if m.Makes(d) {
				t.Errorf("%s makes %d", c.name, d)
			}
		}
	}
}

// TestPage keeps the list of models in the documentation true.
func TestPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(testenv.Root(t), "docs", "format", "table-properties.md"))
	if err != nil {
		t.Fatal(err)
	}
	facts := func(m *embedding.Model) string {
		prefix := ""
		if m.QueryPrefix != "" {
			prefix = "`" + strings.ReplaceAll(m.QueryPrefix, "|", `\|`) + "`"
		}
		if m.DocumentPrefix != "" {
			prefix += ", `" + strings.ReplaceAll(m.DocumentPrefix, "|", `\|`) + "`"
		}
		return m.Dims() + " | " + prefix
	}
	var want strings.Builder
	for all := embedding.Models(); len(all) > 0; {
		names := []string{"`" + all[0].Name + "`"}
		f := facts(all[0])
		for all = all[1:]; len(all) > 0 && facts(all[0]) == f; all = all[1:] {
			names = append(names, "`"+all[0].Name+"`")
		}
		want.WriteString("| " + strings.Join(names, ", ") + " | " + f + " |\n")
	}
	if !strings.Contains(string(page), "|---|---|---|\n"+want.String()+"\n") {
		t.Errorf("docs/format/table-properties.md should list:\n%s", want.String())
	}
}

// columns are written as "name type", numbered from 1; a column without a type holds something else.
func columns(list ...string) []embedding.Column {
	out := make([]embedding.Column, len(list))
	for i, s := range list {
		name, typ, _ := strings.Cut(s, ": ")
		out[i] = embedding.Column{ID: i + 1, Name: name}
		out[i].Type, _ = declared.Parse(typ)
	}
	return out
}

// props are written as "field = value", without the prefix.
func props(list ...string) map[string]string {
	out := map[string]string{"comment": "not ours"}
	for _, s := range list {
		k, v, _ := strings.Cut(s, " = ")
		out[embedding.Prefix+k] = v
	}
	return out
}

func TestRead(t *testing.T) {
	for _, c := range []struct {
		props   []string
		columns []string
		id      int
		want    embedding.Contract
	}{
		{nil, []string{"id", "e: vector(3)"}, 2, embedding.Contract{Dim: 3}},
		{nil, []string{"e: vector"}, 1, embedding.Contract{}},
		{[]string{"dim = 5"}, []string{"id", "e: halfvec"}, 2, embedding.Contract{Dim: 5}},
		{[]string{"model = mine", "dim = 5", "provider = us", "endpoint = http://localhost:11434/api", "query_prefix = q: "}, []string{"e: vector"}, 1,
			embedding.Contract{Model: "mine", Dim: 5, Provider: "us", Endpoint: "http://localhost:11434/api", QueryPrefix: "q: "}},
		{[]string{"model = mine"}, []string{"e: vector(7)"}, 1, embedding.Contract{Model: "mine", Dim: 7}},
		{[]string{"model = TEXT-embedding-3-SMALL"}, []string{"e: vector(256)"}, 1, embedding.Contract{Model: "text-embedding-3-small", Dim: 256}},
		{[]string{"model = text-embedding-3-small"}, []string{"e: vector"}, 1, embedding.Contract{Model: "text-embedding-3-small", Dim: 1536}},
		{[]string{"model = e5-small-v2"}, []string{"e: vector"}, 1, embedding.Contract{Model: "intfloat/e5-small-v2", Dim: 384, QueryPrefix: "query: "}},
		{[]string{"model = e5-small-v2", "query_prefix = "}, []string{"e: vector"}, 1, embedding.Contract{Model: "intfloat/e5-small-v2", Dim: 384}},
		{[]string{"B.model = e5-small-v2", "a.dim = 2"}, []string{"a: vector", "b: halfvec(384)"}, 2, embedding.Contract{Model: "intfloat/e5-small-v2", Dim: 384, QueryPrefix: "query: "}},
		{[]string{"a.b.dim = 2", "c.dim = 3"}, []string{"a.b: vector", "c: vector"}, 1, embedding.Contract{Dim: 2}},
		// Both forms may speak of one column, as long as they say the same.
		{[]string{"dim = 2", "e.dim = 2"}, []string{"e: vector", "w: sparsevec(9)"}, 1, embedding.Contract{Dim: 2}},
	} {
		got, err := embedding.Read(props(c.props...), columns(c.columns...))
		if err != nil {
			t.Errorf("%v on %v: %v", c.props, c.columns, err)
			continue
		}
		k := got[c.id]
		if (k.Known != nil) != (strings.Contains(k.Model, "e5") || strings.Contains(k.Model, "3-small")) {
			t.Errorf("%v: known is %v", c.props, k.Known)
		}
		if k.Known = nil; k != c.want {
			t.Errorf("%v on %v: got %+v, want %+v", c.props, c.columns, k, c.want)
		}
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		props   []string
		columns []string
		kind    errs.Kind
		says    string // parts of the message, separated by "…"
		hint    string
	}{
		{[]string{"model = bge-small-en-v1.5"}, []string{"e: vector(768)"}, errs.Invalid, "384…768…vector(768)", "vector(384)"},
		{[]string{"model = bge-small-en-v1.5", "dim = 512"}, []string{"e: vector"}, errs.Invalid, "384…512…dim is 512", "vector(384)"},
		{[]string{"model = text-embedding-3-small"}, []string{"e: vector(2000)"}, errs.Invalid, "1 to 1536…2000", "vector(1536)"},
		{[]string{"dim = 5"}, []string{"e: halfvec(4)"}, errs.Invalid, "halfvec(4)…4 dimensions, not 5", "halfvec(5)"},
		{[]string{"model = mine"}, []string{"e: vector"}, errs.Invalid, "mine…not known", "overlake.embedding.dim"},
		{[]string{"e.model = mine"}, []string{"e: vector"}, errs.Invalid, "mine…not known", "overlake.embedding.e.dim"},
		{[]string{"model = mine"}, []string{"a: vector(2)", "b: vector(2)"}, errs.Invalid, "several columns of vectors: a, b", "overlake.embedding.a.model"},
		{[]string{"dim = 2"}, []string{"a", "b: bit(8)"}, errs.Invalid, "no column of vectors", "vector(n)"},
		{[]string{"x.dim = 2"}, []string{"a: vector"}, errs.NotFound, `no column "x"`, ""},
		{[]string{"s.dim = 2"}, []string{"a: vector", "s: sparsevec"}, errs.Invalid, `"s" does not hold vectors`, "vector(n)"},
		{[]string{"dim = 2", "a.dim = 3"}, []string{"a: vector"}, errs.Invalid, "\"3\"…\"2\"", "leave one"},
		{[]string{"a.dim = 2", "A.dim = 3"}, []string{"a: vector"}, errs.Invalid, "\"3\"…\"2\"", "leave one"},
		{[]string{"dims = 2"}, []string{"a: vector"}, errs.Unsupported, "no such property", "query_prefix"},
		{[]string{".dim = 2"}, []string{"a: vector"}, errs.Unsupported, "no such property", ""},
		{[]string{"a.size = 2"}, []string{"a: vector"}, errs.Unsupported, "no such property", ""},
		{[]string{"dim = 0"}, []string{"a: vector"}, errs.Invalid, "1 to 16000…\"0\"", ""},
		{[]string{"dim = 16001"}, []string{"a: vector"}, errs.Invalid, "16001", ""},
		{[]string{"dim = many"}, []string{"a: vector"}, errs.Invalid, "many", ""},
		{[]string{"model =  "}, []string{"a: vector(2)"}, errs.Invalid, "empty", "RESET"},
		{[]string{"provider = "}, []string{"a: vector(2)"}, errs.Invalid, "empty", ""},
		{[]string{"endpoint = ftp://x"}, []string{"a: vector(2)"}, errs.Invalid, "http://", ""},
		{[]string{"endpoint = http://"}, []string{"a: vector(2)"}, errs.Invalid, "http://", ""},
		{[]string{"endpoint = %"}, []string{"a: vector(2)"}, errs.Invalid, "http://", ""},
		{[]string{"endpoint = https://key:secret@api.example.com"}, []string{"a: vector(2)"}, errs.Invalid, "no password", ""},
	} {
		_, err := embedding.Read(props(c.props...), columns(c.columns...))
		if err == nil {
			t.Errorf("%v on %v is taken", c.props, c.columns)
			continue
		}
		rest := err.Error()
		for part := range strings.SplitSeq(c.says, "…") {
			if _, after, ok := strings.Cut(rest, part); ok {
				rest = after
			} else {
				t.Errorf("%v: %v does not say %q", c.props, err, part)
			}
		}
		if errs.KindOf(err) != c.kind || !strings.Contains(errs.HintOf(err), c.hint) {
			t.Errorf("%v: %v (%v), hint %q", c.props, err, errs.KindOf(err), errs.HintOf(err))
		}
	}
}

func TestKeep(t *testing.T) {
	for _, c := range []struct {
		name          string
		before, after []string
		columns       string
		want          string // "" when rows may stay
	}{
		{"nothing", nil, nil, "e: vector(384)", ""},
		{"a first model, of a column that has always had its dimensions", nil, []string{"model = e5-small-v2"}, "e: vector(384)", ""},
		{"an alias of the same model", []string{"model = e5-small-v2"}, []string{"model = intfloat/e5-small-v2"}, "e: vector(384)", ""},
		{"what follows from the model said once more", []string{"model = e5-small-v2"}, []string{"model = e5-small-v2", "dim = 384"}, "e: vector", ""},
		{"another form", []string{"model = e5-small-v2"}, []string{"e.model = e5-small-v2"}, "e: vector", ""},
		{"another provider, endpoint, prefix", []string{"model = m", "dim = 2"}, []string{"model = m", "dim = 2", "provider = p", "endpoint = http://h", "query_prefix = x"}, "e: vector", ""},
		{"another model", []string{"model = e5-small-v2"}, []string{"model = bge-small-en-v1.5"}, "e: vector(384)", "intfloat/e5-small-v2 and cannot become BAAI/bge-small-en-v1.5"},
		{"no model", []string{"model = e5-small-v2"}, nil, "e: vector(384)", "cannot become none"},
		{"no dimensions", []string{"dim = 3"}, nil, "e: vector", "3 dimensions and cannot get any number"},
		{"other dimensions", []string{"dim = 3"}, []string{"dim = 4"}, "e: vector", "3 dimensions and cannot get 4"},
		{"a first dim", nil, []string{"dim = 4"}, "e: vector", "cannot be said to have 4"},
		{"a first model that says dimensions", nil, []string{"model = e5-small-v2"}, "e: vector", "cannot be said to have 384"},
	} {
		cols := columns(c.columns)
		before, err := embedding.Read(props(c.before...), cols)
		if err != nil {
			t.Fatal(err)
		}
		after, err := embedding.Read(props(c.after...), cols)
		if err != nil {
			t.Fatal(err)
		}
		err = embedding.Keep(before, after, cols)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (!errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), c.want) || !strings.Contains(errs.HintOf(err), "new column")):
			t.Errorf("%s: %v, hint %q", c.name, err, errs.HintOf(err))
		}
	}
	// A column that came or went shares no rows.
	before, _ := embedding.Read(props("dim = 3"), []embedding.Column{{ID: 1, Name: "a", Type: declared.Type{Name: "vector"}}})
	after, _ := embedding.Read(nil, []embedding.Column{{ID: 2, Name: "a", Type: declared.Type{Name: "vector"}}})
	if err := embedding.Keep(before, after, columns("a: vector", "a: vector")); err != nil {
		t.Error(err)
	}
}

func TestFollow(t *testing.T) {
	a, b := declared.Type{Name: "vector"}, declared.Type{Name: "halfvec"}
	for _, c := range []struct {
		name          string
		props         []string
		before, after []embedding.Column
		want          []string
	}{
		{"nothing changes", []string{"dim = 2"}, []embedding.Column{{ID: 1, Name: "a", Type: a}}, []embedding.Column{{ID: 1, Name: "a", Type: a}}, []string{"dim = 2"}},
		{"a rename; the plain form names no column", []string{"dim = 2", "A.model = m"}, []embedding.Column{{ID: 1, Name: "a", Type: a}}, []embedding.Column{{ID: 1, Name: "c", Type: a}}, []string{"dim = 2", "c.model = m"}},
		{"a second column", []string{"dim = 2", "model = m"}, []embedding.Column{{ID: 1, Name: "a", Type: a}}, []embedding.Column{{ID: 1, Name: "a", Type: a}, {ID: 2, Name: "b", Type: b}}, []string{"a.dim = 2", "a.model = m"}},
		{"a second column of something else", []string{"dim = 2"}, []embedding.Column{{ID: 1, Name: "a", Type: a}}, []embedding.Column{{ID: 1, Name: "a", Type: a}, {ID: 2, Name: "b"}}, []string{"dim = 2"}},
		{"the column goes", []string{"dim = 2", "a.model = m"}, []embedding.Column{{ID: 1, Name: "a", Type: a}, {ID: 2, Name: "x"}}, []embedding.Column{{ID: 2, Name: "x"}}, nil},
		{"one of two goes", []string{"a.dim = 2", "b.dim = 3"}, []embedding.Column{{ID: 1, Name: "a", Type: a}, {ID: 2, Name: "b", Type: b}}, []embedding.Column{{ID: 2, Name: "b", Type: b}}, []string{"b.dim = 3"}},
		{"another takes its place", []string{"dim = 2"}, []embedding.Column{{ID: 1, Name: "a", Type: a}}, []embedding.Column{{ID: 2, Name: "a", Type: a}}, nil},
		{"two swap names", []string{"a.dim = 2", "b.dim = 3"}, []embedding.Column{{ID: 1, Name: "a", Type: a}, {ID: 2, Name: "b", Type: b}}, []embedding.Column{{ID: 1, Name: "b", Type: a}, {ID: 2, Name: "a", Type: b}}, []string{"a.dim = 3", "b.dim = 2"}},
		{"renamed when a second comes", []string{"dim = 2"}, []embedding.Column{{ID: 1, Name: "a", Type: a}}, []embedding.Column{{ID: 1, Name: "c", Type: a}, {ID: 2, Name: "a", Type: b}}, []string{"c.dim = 2"}},
	} {
		have := props(c.props...)
		set, remove := embedding.Follow(have, c.before, c.after)
		for _, k := range remove {
			delete(have, k)
		}
		maps.Copy(have, set)
		if want := props(c.want...); !maps.Equal(have, want) {
			t.Errorf("%s: got %v, want %v", c.name, have, want)
		}
		for _, k := range remove {
			if _, both := set[k]; both {
				t.Errorf("%s: %s is set and removed", c.name, k)
			}
		}
	}
}

// FuzzRead: properties come from metadata that others write.
func FuzzRead(f *testing.F) {
	f.Add("model", "e5-small-v2", "e", uint16(384))
	f.Add("e.dim", "5", "e", uint16(0))
	f.Add("..endpoint", "http://[::1]:1/%zz", "", uint16(1))
	f.Fuzz(func(t *testing.T, key, value, column string, n uint16) {
		cols := []embedding.Column{{ID: 1, Name: column, Type: declared.Type{Name: "vector", N: int(n)}}, {ID: 2, Name: "x"}}
		p := map[string]string{embedding.Prefix + key: value}
		k, err := embedding.Read(p, cols)
		if err == nil && (k[1].Model != "" && k[1].Dim == 0 || n > 0 && k[1].Dim != int(n)) {
			t.Fatalf("%v: %+v", p, k[1])
		}
		embedding.Follow(p, cols, []embedding.Column{{ID: 1, Name: "z"}})
	})
}
