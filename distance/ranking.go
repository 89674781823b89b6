package distance

import (
	"slices"

	"github.com/overlakedb/overlake/internal/vec/kernel"
)

// TopK gives the places of the k smallest distances, the smallest first, and those distances. Of equal ones the lower place
// comes first, and NaN comes behind everything else. It ranks what Batch and its kin gave. With fewer than k distances it
// gives all of them; a k below 1 is refused.
func TopK(distances []float32, k int) (places []int, smallest []float32, err error) {
	out, err := neighbors("distance.topk", 1, len(distances), k)
	if err != nil || out.K == 0 {
		return nil, nil, err
	}
	r := ranking{k: out.K}
	buf := make([]uint32, min(len(distances), blockNumbers))
	for lo := 0; lo < len(distances); lo += blockNumbers {
		r.take(distances[lo:min(lo+blockNumbers, len(distances))], lo, func(x float32) float32 { return x }, buf)
	}
	r.sorted(out.Rows, out.Distances)
	return out.Rows, out.Distances, nil
}

// hit is a row with its distance. rank is ordered as the distance is, and finer.
type hit struct {
	distance, rank float32
	row            int
}

// before is the order of answers: by distance, NaN last, then by row.
func (a hit) before(b hit) bool {
	if a.distance != b.distance {
		aNaN, bNaN := a.distance != a.distance, b.distance != b.distance
		if aNaN != bNaN {
			return bNaN
		}
		if !aNaN {
			return a.distance < b.distance
		}
	}
	return a.row < b.row
}

// ranking keeps the k first hits of those that it is given. The last of them is on top of the heap.
type ranking struct {
	k    int
	heap []hit
}

// add takes a hit that may be among the first k.
func (r *ranking) add(h hit) {
	if len(r.heap) < r.k {
		r.heap = append(r.heap, h)
		for i := len(r.heap) - 1; i > 0; {
			up := (i - 1) / 2
			if !r.heap[up].before(r.heap[i]) {
				break
			}
			r.heap[up], r.heap[i] = r.heap[i], r.heap[up]
			i = up
		}
		return
	}
	if !h.before(r.heap[0]) {
		return
	}
	r.heap[0] = h
	for i := 0; ; {
		down := 2*i + 1
		if down >= len(r.heap) {
			return
		}
		if down+1 < len(r.heap) && r.heap[down].before(r.heap[down+1]) {
			down++
		}
		if !r.heap[i].before(r.heap[down]) {
			return
		}
		r.heap[i], r.heap[down] = r.heap[down], r.heap[i]
		i = down
	}
}

// take adds rows from first on, all behind those that were taken before. places has room for as many places.
func (r *ranking) take(ranks []float32, first int, final func(float32) float32, places []uint32) {
	i := 0
	for ; i < len(ranks) && (len(r.heap) < r.k || r.heap[0].rank != r.heap[0].rank); i++ {
		r.add(hit{final(ranks[i]), ranks[i], first + i})
	}
	// From here on only a smaller rank can come before the last hit: its row comes behind all others.
	rest := ranks[i:]
	if len(rest) == 0 {
		return
	}
	n := kernel.Select(rest, r.heap[0].rank, places[:len(rest)])
	for _, p := range places[:n] {
		if x := rest[p]; x < r.heap[0].rank {
			r.add(hit{final(x), x, first + i + int(p)})
		}
	}
}

// sorted writes out the hits, the nearest first.
func (r *ranking) sorted(rows []int, distances []float32) {
	slices.SortFunc(r.heap, func(a, b hit) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	for i, h := range r.heap {
		rows[i], distances[i] = h.row, h.distance
	}
}
