package query_test

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/overlakedb/overlake/internal/index/bm25/automaton"
	"github.com/overlakedb/overlake/internal/index/bm25/primitive"
	"github.com/overlakedb/overlake/internal/index/bm25/query"
	"github.com/overlakedb/overlake/internal/testenv"
)

// forms lists the nodes of a tree with the first sentences of their comments.
func forms(t *testing.T) string {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "tree.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	nodes := map[string]bool{}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == "node" {
			nodes[f.Recv.List[0].Type.(*ast.Ident).Name] = true
		}
	}
	p, err := doc.NewFromFiles(set, []*ast.File{file}, "query")
	if err != nil {
		t.Fatal(err)
	}
	comments := map[string]string{}
	for _, x := range p.Types {
		text := strings.Join(strings.Fields(x.Doc), " ")
		if i := strings.Index(text, ". "); i > 0 {
			text = text[:i+1]
		}
		text, _, _ = strings.Cut(text, "; see ")
		text = strings.TrimPrefix(strings.TrimSuffix(text, "."), x.Name+" ")
		comments[x.Name] = strings.ReplaceAll(text, "|", `\|`)
	}
	out := "| form | what it does |\n|---|---|\n"
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.TYPE {
			continue
		}
		for _, s := range g.Specs {
			if name := s.(*ast.TypeSpec).Name.Name; nodes[name] {
				out += fmt.Sprintf("| `%s` | %s |\n", name, comments[name])
				delete(nodes, name)
			}
		}
	}
	if len(nodes) > 0 {
		t.Errorf("no type for %v", nodes)
	}
	return out
}

// meanings lists texts and what they are lowered to.
func meanings(t *testing.T, kind string, texts ...string) string {
	s := schema(t)
	out := "| text | is |\n|---|---|\n"
	for _, text := range texts {
		n, err := parse(t, kind, "-", text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		p, err := query.Lower(n, s)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		cell := strings.NewReplacer("|", `\|`)
		out += fmt.Sprintf("| `%s` | `%s` |\n", cell.Replace(text), cell.Replace(primitive.Describe(primitive.Rewrite(p), s.Names())))
	}
	return out
}

func words[S ~string](list []S) string {
	var out []string
	for _, w := range list {
		out = append(out, "`"+string(w)+"`")
	}
	return strings.Join(out, ", ")
}

// TestPage holds the tables of the guide against the code; -rewrite writes them.
func TestPage(t *testing.T) {
	file := filepath.Join(testenv.Root(t), "docs", "guide", "text-queries.md")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var modifiers []primitive.Modifier
	for m := range primitive.Modifiers {
		modifiers = append(modifiers, m)
	}
	slices.Sort(modifiers)
	types := "| type | meaning |\n|---|---|\n"
	meaning := map[query.MultiType]string{query.BestFields: "the best field scores; with a tie breaker, the others add a part", query.MostFields: "all fields add up",
		query.CrossFields: "every word is looked for in all fields as if they were one", query.PhraseFields: "the best field with the phrase scores",
		query.PhrasePrefixField: "the same, and the last word is a beginning", query.BoolPrefixFields: "all fields add up, and the last word is a beginning"}
	for _, m := range query.MultiTypes {
		types += fmt.Sprintf("| `%s` | %s |\n", m, meaning[m])
	}
	parts := map[string]string{
		"forms": forms(t),
		"string": meanings(t, "string", `title:fox`, `quick fox`, `title:(quick fox)`, `title:quick AND title:fox`, `title:quick OR title:fox`, `title:fox NOT title:dog`, `+title:quick -title:fox`,
			`title:"quick fox"`, `title:"quick fox"~2`, `title:fo*`, `title:f?x`, `title:/fo[xk]/`, `title:fox~`, `title:fox~2`, `title:fox^3`, `title:[a TO f}`, `title:>=a`,
			`_exists_:title`, `tag:*`, `*:*`, `t*:fox`),
		"simple":      meanings(t, "simple", `fox`, `quick + fox`, `quick | fox`, `-fox`, `"quick fox"`, `"quick fox"~2`, `fo*`, `fox~1`, `(quick fox) + dog`),
		"types":       types,
		"flags":       words(query.FlagNames),
		"modifiers":   words(modifiers),
		"score modes": words(primitive.ScoreModes),
		"boost modes": words(primitive.BoostModes),
	}
	used := 0
	section := regexp.MustCompile(`(?s)<!-- (table|list): ([a-z ]+) -->.*?<!-- end -->`)
	page := section.ReplaceAllStringFunc(string(data), func(old string) string {
		m := section.FindStringSubmatch(old)
		text, ok := parts[m[2]]
		if !ok {
			t.Errorf("the page has a part %q that nothing makes", m[2])
			return old
		}
		used++
		if m[1] == "table" {
			text = "\n" + text
		}
		return fmt.Sprintf("<!-- %s: %s -->%s<!-- end -->", m[1], m[2], text)
	})
	if used != len(parts) {
		t.Errorf("the page has %d of %d parts", used, len(parts))
	}
	for _, limit := range []string{fmt.Sprintf("| nodes in each other | %d |", 100), "| 65,536 |", fmt.Sprintf("| characters of a regular expression | 1,%03d |", automaton.MaxRegexp-1000),
		fmt.Sprintf("regular expression | %d,000 |", automaton.MaxStates/1000)} {
		if !strings.Contains(page, limit) {
			t.Errorf("the page does not say %s", limit)
		}
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if page != string(data) {
		t.Errorf("the tables of %s are not those of the code; run this test with -rewrite", file)
	}
}
