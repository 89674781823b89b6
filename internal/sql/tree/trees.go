package tree

import (
	"maps"
	"slices"

	"github.com/overlakedb/overlake/internal/cache"
)

// Trees keeps the trees of texts that were parsed before, bounded in bytes. It is safe for concurrent use.
type Trees struct{ by *cache.LRU }

// NewTrees makes room for about so many bytes.
func NewTrees(limit int64) *Trees { return &Trees{by: cache.New(limit)} }

// nodeBytes is about what a tree takes in memory for a byte of its text.
const nodeBytes = 12

// kept is a tree with the way to its queries.
type kept struct {
	root Node
	way  *way
}

// Of gives the tree of a text, from parse where it is not known: the text of the tree. check looks at a tree before it is kept,
// and is not asked for one that is. Who gets the tree may write into its queries (see IsQuery), and nowhere else.
func (t *Trees) Of(text string, parse func() (string, error), check func(Node) error) (Node, error) {
	k, err := cache.Or(t.by, text, func() (kept, int64, error) {
		tree, err := parse()
		if err != nil {
			return kept{}, 0, err
		}
		root, err := Decode(tree)
		if err == nil {
			err = check(root)
		}
		return kept{root, wayOf(root)}, nodeBytes * int64(len(tree)), err
	})
	if err != nil {
		return nil, err
	}
	root, _ := k.way.fresh(k.root).(Node)
	return root, nil
}

// way leads through a node or a list to the queries below it.
type way struct {
	keys  map[string]*way
	items map[int]*way
}

// wayOf is the way from a node or a list; nil where there is no query.
func wayOf(v any) *way {
	w := &way{}
	query := false
	switch v := v.(type) {
	case Node:
		query = IsQuery(v)
		for key, x := range v {
			if k := wayOf(x); k != nil {
				if w.keys == nil {
					w.keys = map[string]*way{}
				}
				w.keys[key] = k
			}
		}
	case []any:
		for i, x := range v {
			if k := wayOf(x); k != nil {
				if w.items == nil {
					w.items = map[int]*way{}
				}
				w.items[i] = k
			}
		}
	}
	if !query && w.keys == nil && w.items == nil {
		return nil
	}
	return w
}

// fresh copies the queries, and what leads to them; the rest is shared.
func (w *way) fresh(v any) any {
	if w == nil {
		return v
	}
	switch v := v.(type) {
	case Node:
		out := maps.Clone(v)
		for key, k := range w.keys {
			out[key] = k.fresh(v[key])
		}
		return out
	case []any:
		out := slices.Clone(v)
		for i, k := range w.items {
			out[i] = k.fresh(v[i])
		}
		return out
	}
	return v
}
