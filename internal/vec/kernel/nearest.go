//go:build amd64 && !purego

package kernel

import "math"

// roundPoints is the number of points for which the centroids are brought into the order of panels once.
const roundPoints = 1024

// tiledNearest takes points in rounds and centroids in panels. A panel holds two registers of centroids dimension by
// dimension; it stays in the nearest cache while all points of the round pass by. Every lane remembers the best centroid that it
// has seen, and in the end the best of the lanes counts.
//
// A tile is the piece of work that a kernel does: some points, and the two registers of centroids of a panel. A register
// has so many lanes.
func tiledNearest(tile, lanes, dim int, points, centroids, half []float32, ids []uint32, nearest []float32) {
	if len(ids) < tile {
		nearestByDot(dim, points, centroids, half, ids, nearest)
		return
	}
	width := 2 * lanes
	panel, halves := make([]float32, width*dim), make([]float32, width)
	best, where := make([]float32, min(len(ids), roundPoints)*lanes), make([]uint32, min(len(ids), roundPoints)*lanes)
	for from := 0; from < len(ids); from += roundPoints {
		// A tile needs all its points: the last ones may be looked at twice.
		from := min(from, len(ids)-tile)
		n := min(len(ids)-from, roundPoints)
		best, where := best[:n*lanes], where[:n*lanes]
		for i := range best {
			best[i] = float32(math.Inf(1))
		}
		clear(where)
		for first := 0; first < len(half); first += width {
			pack(panel, halves, centroids[first*dim:], half[first:], dim)
			for p := 0; p < n; p += tile {
				p := min(p, n-tile)
				if level == AVX2 {
					nearestAVX2(&points[(from+p)*dim], dim, &panel[0], &halves[0], uint32(first), &best[p*lanes], &where[p*lanes])
				} else {
					nearestAVX512(&points[(from+p)*dim], dim, &panel[0], &halves[0], uint32(first), &best[p*lanes], &where[p*lanes])
				}
			}
		}
		for i := range n {
			d, at := best[i*lanes:][:lanes], where[i*lanes:][:lanes]
			lane := 0
			for l := range d {
				if d[l] < d[lane] || d[l] == d[lane] && at[l] < at[lane] {
					lane = l
				}
			}
			ids[from+i], nearest[from+i] = at[lane], d[lane]
		}
	}
}

// pack turns centroids around, so that a dimension of all of them lies together. Where centroids are missing, the half
// length is infinite and nothing comes near.
func pack(panel, halves, centroids, half []float32, dim int) {
	width := len(halves)
	n := copy(halves, half)
	for i := n; i < width; i++ {
		halves[i] = float32(math.Inf(1))
	}
	if n < width {
		clear(panel)
	}
	j, even := 0, dim&^7
	for ; j+8 <= n && even > 0; j += 8 {
		turnAVX2(&centroids[j*dim], 4*dim, even, &panel[j], 4*width)
		for i := j; i < j+8; i++ {
			spread(panel[i:], centroids[i*dim:][:dim], even, width)
		}
	}
	for ; j < n; j++ {
		spread(panel[j:], centroids[j*dim:][:dim], 0, width)
	}
}

// spread writes the numbers of a row from one place on, each width places after the one before.
func spread(panel, row []float32, from, width int) {
	for k := from; k < len(row); k++ {
		panel[k*width] = row[k]
	}
}

// nearestByDot is for fewer points than a tile has.
func nearestByDot(dim int, points, centroids, half []float32, ids []uint32, nearest []float32) {
	products := make([]float32, len(half))
	for i := range ids {
		dot(points[i*dim:][:dim], centroids, nil, products)
		best, at := float32(math.Inf(1)), 0
		for c, h := range half {
			if d := h - products[c]; d < best {
				best, at = d, c
			}
		}
		ids[i], nearest[i] = uint32(at), best
	}
}
