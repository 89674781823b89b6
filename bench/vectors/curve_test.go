package main

import (
	"math"
	"testing"
)

func curve(name string, recallMicros ...float64) []point {
	var out []point
	for i := 0; i < len(recallMicros); i += 2 {
		out = append(out, point{Contender: "x", Curve: name, Level: i, Recall: recallMicros[i], Micros: recallMicros[i+1]})
	}
	return out
}

func TestRateAtRecall(t *testing.T) {
	slow := curve("rerank=4", 0.80, 100, 0.90, 200, 0.98, 400)
	fast := curve("rerank=2", 0.85, 90, 0.92, 120)
	both := append(append([]point{}, slow...), fast...)
	for _, c := range []struct {
		name   string
		points []point
		target float64
		micros float64
		curve  string
	}{
		{"at a level", slow, 0.90, 200, "rerank=4"},
		{"between levels", slow, 0.94, 300, "rerank=4"},
		{"below all levels", slow, 0.50, 100, "rerank=4"},
		{"never", slow, 0.99, 0, ""},
		{"the better curve", both, 0.90, 90 + 30*5.0/7, "rerank=2"},
		{"only one curve gets there", both, 0.98, 400, "rerank=4"},
		{"nothing across curves", both, 0.93, 200 + 200*3.0/8, "rerank=4"},
		{"more effort, less recall", curve("", 0.9, 100, 0.96, 150, 0.94, 180, 0.97, 220), 0.96, 150, ""},
		{"order of the levels, not of the list", []point{{Level: 3, Recall: 1, Micros: 30}, {Level: 1, Recall: 0.8, Micros: 10}}, 0.9, 20, ""},
		{"no points", nil, 0.9, 0, ""},
	} {
		rate, name := at(c.points, c.target)
		want := 0.0
		if c.micros > 0 {
			want = 1e6 / c.micros
		}
		if math.Abs(rate-want) > 1e-6*(1+want) || name != c.curve {
			t.Errorf("%s: %v on %q, want %v on %q", c.name, rate, name, want, c.curve)
		}
	}
}
