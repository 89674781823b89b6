package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/overlakedb/overlake/bench/vectors/points"
	"github.com/overlakedb/overlake/bench/vectors/worker"
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

func TestCurvesEnd(t *testing.T) {
	for _, c := range []struct {
		recalls []float64
		want    bool
	}{
		{[]float64{0.5}, false},
		{[]float64{0.998}, true},
		{[]float64{0, 0, 0}, false},
		{[]float64{0.9, 0.9, 0.9001, 0.9002}, true},
		{[]float64{0.9, 0.9, 0.9, 0.91}, false},
		{[]float64{0.8, 0.9, 0.9, 0.9}, false},
	} {
		if got := over(c.recalls, 0.997); got != c.want {
			t.Errorf("%v: %v", c.recalls, got)
		}
	}
}

func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		ours, theirs float64
		g            *goal
		ratio        float64
		verdict      string
	}{
		{14, 10, least(1.4), 1.4, "pass"},
		{13, 10, least(1.4), 1.3, "miss"},
		{8, 10, most(0.85), 0.8, "pass"},
		{9, 10, most(0.85), 0.9, "miss"},
		{0, 10, least(1.4), 0, "miss"},
		{0, 0, least(1.4), 0, "miss"},
		{5, 0, least(1.4), 0, "pass"},
		{5, 10, nil, 0.5, ""},
	} {
		r := newResults("", 1, 1, "")
		r.compare("x", c.ours, "peer", c.theirs, "q/s", c.g)
		if m := r.lines[0]; m.Ratio != c.ratio || m.Verdict != c.verdict {
			t.Errorf("%v against %v, %v: %+v", c.ours, c.theirs, c.g, m)
		}
	}
	r := newResults("", 1, 1, "")
	r.differ("x", 94.5, "peer", 95, "%", -0.5)
	r.differ("x", 94.4, "peer", 95, "%", -0.5)
	if r.lines[0].Verdict != "pass" || r.lines[1].Verdict != "miss" {
		t.Errorf("%+v", r.lines)
	}
}

// TestPage: what is measured is on the page, losses too.
func TestPage(t *testing.T) {
	dir := t.TempDir()
	r := newResults(filepath.Join(dir, "v.json"), 10, 1, "")
	r.begin("a-set", "search")
	set := &points.Set{Name: "a-set", Dim: 1, Base: make([]float32, 4)}
	for _, n := range []string{hnswlib, graphF32} {
		r.build(set, &contender{name: n}, worker.Built{CPU: 2, Size: worker.Size{Artifact: 40}})
		for i, recall := range []float64{0.8, 0.94} {
			r.Points = append(r.Points, point{place: r.here, Contender: n, Level: pools[i], Recall: recall, Micros: 100})
		}
		r.Points = append(r.Points, point{place: r.here, Contender: n, Filter: "half", Recall: 1, Micros: 1000})
	}
	r.begin("a-set", "engine")
	r.build(set, &contender{name: "table, x"}, worker.Built{CPU: 3})
	r.Points = append(r.Points, point{place: r.here, Queries: "tables", Contender: "table, x", Recall: 0.96, Micros: 1000},
		point{place: r.here, Queries: "tables", Contender: "table, x", Filter: "a column", Recall: 0.92, Micros: 2000})
	r.compare("a loss", 1, hnswlib, 2, "q/s", least(1.4))
	if err := r.write(); err != nil {
		t.Fatal(err)
	}
	// Another run keeps what it does not measure itself.
	again := newResults(r.out, 20, 2, "^ivf|^hnsw")
	if err := again.read(); err != nil {
		t.Fatal(err)
	}
	again.begin("b-set", "search")
	again.leave("it was not there")
	if err := again.write(); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(dir, "v.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"0 passed, 1 missed", "- b-set: it was not there", "| a loss | 1.00 | hnswlib | 2.00 | q/s | 0.50 | >= 1.4 | miss |",
		"| hnsw | 10000 | never | never |  | 0.9400 | 0.0 | 2.0 | 10 | 0 | 0 |",
		"| a-set | search | " + time.Now().Format(time.DateOnly) + " | 10 | 1 | ", `| 20 | 2 | `, `| ^ivf\|^hnsw |`,
		"| table, x | 1000 | 1000 | never |  | 0.9600 | 0.0 | 3.0 |", "| table, x | a column | 500 | never | never | 0.9200 |",
		"| ef | 10 |", "| hnsw | 0.8000 | 0.9400 |", "| half | 1000, 1.0000 | 1000, 1.0000 |",
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
}

func TestBeginDropsWhatWasThere(t *testing.T) {
	r := newResults("", 1, 1, "")
	for _, section := range []string{"search", "filters"} {
		r.begin("a-set", section)
		r.compare(section, 1, "peer", 2, "q/s", nil)
		r.Points = append(r.Points, point{place: r.here})
		r.leave("something")
	}
	r.begin("a-set", "search")
	if len(r.lines) != 1 || r.lines[0].Case != "filters" || len(r.Points) != 1 || len(r.Left) != 1 || len(r.Runs) != 2 {
		t.Errorf("%+v", r)
	}
}
