package search

import "github.com/overlakedb/overlake/internal/row"

// top keeps the k best hits: a heap with the worst of them at the root.
type top struct {
	k    int
	hits row.Hits
}

// admits reports whether a hit would be kept.
func (t *top) admits(h row.Hit) bool {
	return len(t.hits) < t.k || t.k > 0 && row.Better(h, t.hits[0])
}

// push keeps an admitted hit.
func (t *top) push(h row.Hit) {
	if len(t.hits) < t.k {
		t.hits = append(t.hits, h)
		for i := len(t.hits) - 1; i > 0; {
			parent := (i - 1) / 2
			if !row.Better(t.hits[parent], t.hits[i]) {
				break
			}
			t.hits[parent], t.hits[i] = t.hits[i], t.hits[parent]
			i = parent
		}
		return
	}
	t.hits[0] = h
	for i := 0; ; {
		worst := i
		for _, child := range [...]int{2*i + 1, 2*i + 2} {
			if child < len(t.hits) && row.Better(t.hits[worst], t.hits[child]) {
				worst = child
			}
		}
		if worst == i {
			return
		}
		t.hits[i], t.hits[worst] = t.hits[worst], t.hits[i]
		i = worst
	}
}
