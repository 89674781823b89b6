package main

import (
	"math"
	"slices"
	"strings"
)

// point is one measured effort of one contender.
type point struct {
	place
	Queries   string  `json:"queries,omitempty"` // the list of queries, when it is not the one like the rows
	Filter    string  `json:"filter,omitempty"`
	Contender string  `json:"contender"`
	Curve     string  `json:"curve,omitempty"` // what stays the same along a curve
	Level     int     `json:"level"`           // what grows along it
	Recall    float64 `json:"recall"`
	Micros    float64 `json:"micros"` // processor time of a query, less that of the loop
	Loop      float64 `json:"loop"`   // of a turn of the loop without a search
	Forbidden int     `json:"forbidden,omitempty"`
}

// at is the highest rate at a recall of at least target over the curves of a contender, and the curve: 0 when none of them
// gets there. Between two neighbouring levels of a curve that lie on both sides of the target, time and recall are taken to
// grow in proportion; nothing is assumed beyond the ends.
func at(points []point, target float64) (rate float64, curve string) {
	best := math.Inf(1)
	take := func(micros float64, name string) {
		if micros < best {
			best, curve = micros, name
		}
	}
	sorted := slices.Clone(points)
	slices.SortStableFunc(sorted, func(a, b point) int {
		if a.Curve != b.Curve {
			return strings.Compare(a.Curve, b.Curve)
		}
		return a.Level - b.Level
	})
	for i, p := range sorted {
		if p.Recall >= target {
			take(p.Micros, p.Curve)
		}
		if i == 0 || sorted[i-1].Curve != p.Curve {
			continue
		}
		if q := sorted[i-1]; q.Recall < target && p.Recall > target {
			share := (target - q.Recall) / (p.Recall - q.Recall)
			take(q.Micros+share*(p.Micros-q.Micros), p.Curve)
		}
	}
	if math.IsInf(best, 1) {
		return 0, ""
	}
	return 1e6 / best, curve
}

// of picks the points of a contender.
func of(points []point, contender string) []point {
	var out []point
	for _, p := range points {
		if p.Contender == contender {
			out = append(out, p)
		}
	}
	return out
}
