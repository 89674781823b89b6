package search

import (
	"cmp"
	"slices"

	"github.com/overlakedb/overlake/internal/row"
)

// DefaultFuseK is the constant of reciprocal rank fusion that everybody uses.
const DefaultFuseK = 60

// Fuse makes one ranking of several by reciprocal rank fusion: a row scores the sum of 1/(k + rank) over the lists that
// hold it, ranks counted from 1 (Cormack, Clarke and Büttcher, SIGIR 2009). A row that stands in a list twice counts once,
// at its better rank. k must be positive. Equal scores are ordered by file, then position.
func Fuse(k float64, lists ...row.Hits) row.Hits {
	type fused struct {
		row.Addr
		score float64
	}
	var rows []fused
	at := map[row.Addr]int{}
	seen := map[row.Addr]int{} // the last list that held it, from 1
	for n, list := range lists {
		rank := 0
		for _, h := range list {
			if seen[h.Addr] == n+1 {
				continue
			}
			seen[h.Addr] = n + 1
			rank++
			i, ok := at[h.Addr]
			if !ok {
				i = len(rows)
				at[h.Addr] = i
				rows = append(rows, fused{Addr: h.Addr})
			}
			rows[i].score += 1 / (k + float64(rank))
		}
	}
	slices.SortFunc(rows, func(a, b fused) int {
		return cmp.Or(cmp.Compare(b.score, a.score), a.Compare(b.Addr))
	})
	out := make(row.Hits, len(rows))
	for i, r := range rows {
		out[i] = row.Hit{Addr: r.Addr, Score: float32(r.score)}
	}
	return out
}
