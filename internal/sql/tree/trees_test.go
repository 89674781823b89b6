package tree_test

import (
	"errors"
	"reflect"
	"sync"
	"testing"

	"github.com/overlakedb/overlake/internal/sql/tree"
)

const someTree = `{"error":false,"statements":[{"node":{"type":"SELECT_NODE","select_list":[{"class":"COLUMN_REF","column_names":["t","A"]},
	{"class":"SUBQUERY","subquery":{"node":{"type":"SELECT_NODE","select_list":[{"class":"STAR"}],"n":Infinity,"m":-Infinity,"text":"NaN \" Infinity"}}}],
	"where_clause":{"type":"CONJUNCTION_AND","children":[{"class":"a"},{"type":"CONJUNCTION_AND","children":[{"class":"b"},{"class":"c"}]}]}}}]}`

// TestTreesAreFresh: who gets a tree may write into its queries, and the next one does not see it.
func TestTreesAreFresh(t *testing.T) {
	want, err := tree.Decode(someTree)
	if err != nil {
		t.Fatal(err)
	}
	trees := tree.NewTrees(1 << 20)
	parsed, checked := 0, 0
	get := func() tree.Node {
		root, err := trees.Of("SELECT", func() (string, error) { parsed++; return someTree, nil }, func(tree.Node) error { checked++; return nil })
		if err != nil {
			t.Fatal(err)
		}
		return root
	}
	get()
	var g sync.WaitGroup
	for range 8 {
		g.Go(func() {
			root := get()
			if !reflect.DeepEqual(root, want) {
				t.Errorf("got %v, want %v", root, want)
			}
			st, _ := tree.List(root, "statements")[0].(tree.Node)
			outer := tree.Child(st, "node")
			sub, _ := tree.List(outer, "select_list")[1].(tree.Node)
			outer["mark"], tree.Child(tree.Child(sub, "subquery"), "node")["mark"] = true, true
		})
	}
	g.Wait()
	if parsed != 1 || checked != 1 {
		t.Errorf("parsed %d times, checked %d times", parsed, checked)
	}
	refused := errors.New("no")
	for range 2 {
		if _, err := trees.Of("other", func() (string, error) { return someTree, nil }, func(tree.Node) error { return refused }); !errors.Is(err, refused) {
			t.Errorf("a tree that is refused: %v", err)
		}
	}
	if _, err := trees.Of("third", func() (string, error) { return "", refused }, func(tree.Node) error { return nil }); !errors.Is(err, refused) {
		t.Errorf("a text that does not parse: %v", err)
	}
}

func TestWalks(t *testing.T) {
	root, err := tree.Decode(someTree)
	if err != nil {
		t.Fatal(err)
	}
	st, _ := tree.List(root, "statements")[0].(tree.Node)
	n := tree.Child(st, "node")
	if c := tree.Conjuncts(tree.Child(n, "where_clause")); len(c) != 3 || tree.Str(c[2], "class") != "c" {
		t.Errorf("conjuncts %v", c)
	}
	if names, all := tree.Mentioned(n); !names["a"] || len(names) != 1 || !all {
		t.Errorf("mentioned %v, %v", names, all)
	}
	if at := tree.Location(n); at != -1 {
		t.Errorf("location %d", at)
	}
}

// FuzzDecode: no text makes it panic, and what is decoded is copied whole.
func FuzzDecode(f *testing.F) {
	f.Add(someTree)
	f.Add(`{"a":NaN,"b":[-Infinity,{"type":"X_NODE"}],"query_location":7}`)
	f.Fuzz(func(t *testing.T, s string) {
		root, err := tree.Decode(s)
		if err != nil {
			return
		}
		tree.Location(root)
		tree.Mentioned(root)
		tree.Conjuncts(root)
		again, err := tree.NewTrees(1<<20).Of("", func() (string, error) { return s, nil }, func(tree.Node) error { return nil })
		if err != nil || !reflect.DeepEqual(again, root) {
			t.Errorf("%v: got %v, want %v", err, again, root)
		}
	})
}
