package search_test

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/overlakedb/overlake/internal/index/vector"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/objstore"
	"github.com/overlakedb/overlake/internal/overlay"
	"github.com/overlakedb/overlake/internal/search"
	"github.com/overlakedb/overlake/internal/vec"
)

// mappedBundles counts the mappings of bundles below a directory.
func mappedBundles(t testing.TB, dir string) (n int) {
	t.Helper()
	data, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skip("this system does not tell what is mapped")
	}
	for line := range strings.Lines(string(data)) {
		if strings.Contains(line, dir) && strings.Contains(line, ".puffin") {
			n++
		}
	}
	return n
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Ten thousand searches hold no more than a few did; large sections are mapped and small ones are not, and when the overlays
// are closed, the mappings go.
func TestSearchesHoldNothing(t *testing.T) {
	dir := t.TempDir()
	store, err := objstore.OpenLocal(dir, objstore.LocalOptions{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	table := newPoints(t, store, "held")
	table = addPoints(t, table, points(1, 6000))
	table = addPoints(t, table, points(2, 900))
	build(t, open(t, store, nil), table)
	table = addPoints(t, table, points(3, 30))
	build(t, open(t, store, nil), table)
	rows := scanPoints(t, table)
	s := overlay.NewSet(store, overlay.Options{})
	ask := func(n int) {
		t.Helper()
		if u, err := nearestAnswers(t.Context(), s, table, rows, n); err != nil || u.indexed != n {
			t.Fatal(u, err)
		}
	}
	ask(30)
	before, mapped := heap(), mappedBundles(t, dir)
	if mapped == 0 || mapped > 30 {
		t.Errorf("%d mappings of bundles, for three indexes of two artifacts", mapped)
	}
	total := 10_000
	if testing.Short() {
		total = 300
	}
	for range total / 500 {
		searches(t, s, table, 500)
	}
	if after := heap(); after > before+4<<20 {
		t.Errorf("the heap grew from %d to %d bytes over %d searches", before, after, total)
	}
	if m := mappedBundles(t, dir); m != mapped {
		t.Errorf("%d mappings became %d", mapped, m)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for range 50 { // s is kept: a closed DB may be
		runtime.GC()
		time.Sleep(5 * time.Millisecond)
		if mapped = mappedBundles(t, dir); mapped == 0 {
			break
		}
	}
	if mapped > 0 {
		t.Errorf("%d mappings of bundles after Close", mapped)
	}
	runtime.KeepAlive(s)
}

// searches asks the indexes and throws away what they say.
func searches(t testing.TB, s *overlay.Set, table *lake.Table, n int) {
	t.Helper()
	plan, err := table.Plan(t.Context(), lake.Ref{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	view, err := s.Of(table).View(t.Context(), plan.Schema)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		_, ok, err := search.FindNearest(t.Context(), plan, view, search.NearestRequest{Field: 1, Metric: []vec.Metric{vec.MetricL2, vec.MetricDot, vec.MetricCosine}[i%3],
			Query: vector.DenseQuery(points(uint64(i), 1)[0]), K: 10, Forced: true})
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
}
