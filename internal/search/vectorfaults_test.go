package search_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/vector"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/objstore"
	"github.com/overlakedb/overlake/internal/overlay"
	"github.com/overlakedb/overlake/internal/search"
	"github.com/overlakedb/overlake/internal/vec"
)

// Indexes of vectors under the same faults as the others: the nearest rows are those of a scan.

const pointDim = 4

var pointSchema = arrow.NewSchema([]arrow.Field{{Name: "e", Type: arrow.ListOfNonNullable(arrow.PrimitiveTypes.Float32), Nullable: true}}, nil)

// points makes n vectors; every eleventh row has none.
func points(seed uint64, n int) [][]float32 {
	rng := rand.New(rand.NewPCG(seed, 3))
	out := make([][]float32, n)
	for i := range out {
		if i%11 == 5 {
			continue
		}
		v := make([]float32, pointDim)
		for k := range v {
			v[k] = float32(rng.NormFloat64())
		}
		out[i] = v
	}
	return out
}

func pointsOf(list [][]float32) array.RecordReader {
	b := array.NewRecordBuilder(memory.DefaultAllocator, pointSchema)
	defer b.Release()
	lists := b.Field(0).(*array.ListBuilder)
	for _, v := range list {
		if lists.Append(v != nil); v != nil {
			lists.ValueBuilder().(*array.Float32Builder).AppendValues(v, nil)
		}
	}
	rec := b.NewRecordBatch()
	defer rec.Release()
	out, err := array.NewRecordReader(pointSchema, []arrow.RecordBatch{rec})
	if err != nil {
		panic(err) // of one batch of the schema
	}
	return out
}

// pointSpecs are an index of each way to search, by other metrics.
var pointSpecs = []overlay.Spec{{Name: "l2", Kind: "hnsw_tq8", Columns: []string{"e"}}, {Name: "ip", Kind: "flat", Columns: []string{"e"}, Params: map[string]string{"metric": "ip"}},
	{Name: "cosine", Kind: "hnsw", Columns: []string{"e"}, Params: map[string]string{"metric": "cosine"}}}

func newPoints(t testing.TB, store objstore.Store, name string) *lake.Table {
	t.Helper()
	table, err := lake.OpenFileCatalog(store).Create(t.Context(), lake.Ident{Namespace: lake.DefaultNamespace, Name: name}, lake.CreateSpec{Schema: pointSchema})
	if err != nil {
		t.Fatal(err)
	}
	o := open(t, store, nil).Of(table)
	for _, s := range pointSpecs {
		if _, err := o.Define(t.Context(), table, s); err != nil {
			t.Fatal(err)
		}
	}
	return table
}

func addPoints(t testing.TB, table *lake.Table, list [][]float32) *lake.Table {
	t.Helper()
	out, _, err := table.Append(t.Context(), pointsOf(list), lake.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// pointTable has a graph, flat artifacts of one file and of two, deleted rows, and a file without an index.
func pointTable(t testing.TB, store objstore.Store) *lake.Table {
	t.Helper()
	table := newPoints(t, store, "points")
	s := open(t, store, nil)
	table = addPoints(t, table, points(1, 1250))
	build(t, s, table)
	table = addPoints(t, table, points(2, 40))
	build(t, s, table)
	table = addPoints(t, table, points(3, 12))
	table = addPoints(t, table, points(4, 25))
	build(t, s, table)
	table = remove(t, table, 9)
	return addPoints(t, table, points(5, 10))
}

// vectorsIn reads the vectors of a plan's files, deleted ones included.
func vectorsIn(ctx context.Context, table *lake.Table, plan *lake.Plan) ([][][]float32, error) {
	out := make([][][]float32, len(plan.Files))
	for i := range plan.Files {
		r, err := table.ReadFile(ctx, &plan.Files[i], []string{"e"}, lake.Ref{}, false)
		if err != nil {
			return nil, err
		}
		for r.Next() {
			list := r.RecordBatch().Column(0).(*array.List)
			values := list.ListValues().(*array.Float32).Float32Values()
			for k := range list.Len() {
				if list.IsNull(k) {
					out[i] = append(out[i], nil)
					continue
				}
				from, to := list.ValueOffsets(k)
				out[i] = append(out[i], slices.Clone(values[from:to]))
			}
		}
		err = r.Err()
		r.Release()
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

func scanPoints(t testing.TB, table *lake.Table) [][][]float32 {
	t.Helper()
	plan, err := table.Plan(t.Context(), lake.Ref{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := vectorsIn(t.Context(), table, plan)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func distanceBy(m vec.Metric, a, b []float32) float64 {
	switch m {
	case vec.MetricDot:
		return vec.NegativeDot(a, b)
	case vec.MetricCosine:
		return vec.Cosine(a, b)
	}
	return vec.L2(a, b)
}

// nearestUsage counts how questions were answered.
type nearestUsage struct{ indexed, covered, scanned int }

// nearestAnswers asks for the nearest rows by all metrics and compares with a scan.
func nearestAnswers(ctx context.Context, s *overlay.Set, table *lake.Table, rows [][][]float32, queries int) (u nearestUsage, err error) {
	plan, err := table.Plan(ctx, lake.Ref{}, nil)
	if err != nil {
		return u, err
	}
	for q := range queries {
		view, err := s.Of(table).View(ctx, plan.Schema)
		if err != nil {
			return u, err
		}
		query := points(uint64(100+q), 1)[0]
		metric := []vec.Metric{vec.MetricL2, vec.MetricDot, vec.MetricCosine}[q%3]
		k := []int{1, 7, 20}[q%3]
		field := 1
		n, ok, err := search.FindNearest(ctx, plan, view, search.NearestRequest{Field: field, Metric: metric, Query: vector.DenseQuery(query), K: k, Effort: search.Effort{Exact: true}, Forced: true})
		if err != nil {
			return u, fmt.Errorf("query %d: %w", q, err)
		}
		var want, got []float64
		all := func(into *[]float64, i int) {
			for pos, v := range rows[i] {
				if v != nil && !plan.Files[i].Deletes.Contains(int64(pos)) {
					*into = append(*into, distanceBy(metric, v, query))
				}
			}
		}
		for i := range rows {
			all(&want, i)
		}
		if !ok {
			continue
		}
		u.indexed++
		u.covered, u.scanned = u.covered+n.Access.Covered, u.scanned+len(n.Access.Scan)
		for _, i := range n.Access.Scan {
			all(&got, i)
		}
		for _, f := range n.Access.Fetch {
			for pos := range f.Rows.All() {
				if pos >= int64(len(rows[f.File])) || plan.Files[f.File].Deletes.Contains(pos) || slices.Contains(n.Access.Scan, f.File) {
					return u, fmt.Errorf("query %d: row %d of file %d, which is none", q, pos, f.File)
				}
				if v := rows[f.File][pos]; v != nil {
					got = append(got, distanceBy(metric, v, query))
				}
			}
		}
		slices.SortFunc(want, cmp.Compare[float64])
		slices.SortFunc(got, cmp.Compare[float64])
		if len(got) < k || !slices.EqualFunc(got[:k], want[:k], func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }) {
			return u, fmt.Errorf("query %d by %v: the nearest are at %v, by a scan at %v", q, metric, got[:min(k, len(got))], want[:k])
		}
	}
	return u, nil
}

// healsPoints proves that a build after damage covers everything again.
func healsPoints(t testing.TB, store objstore.Store, table *lake.Table, what string) {
	t.Helper()
	s := open(t, store, nil)
	for _, d := range pointSpecs {
		if _, err := s.Of(table).Define(t.Context(), table, d); err != nil && !errs.Is(err, errs.Exists) {
			t.Fatalf("%s: %v", what, err)
		}
	}
	if err := s.Of(table).Verify(t.Context(), nil, func(string, error) {}); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	build(t, s, table)
	var e events
	u, err := nearestAnswers(t.Context(), open(t, store, &e), table, scanPoints(t, table), 6)
	if err != nil || u.indexed < 6 || u.scanned > 0 || e.len() > 0 {
		t.Fatalf("%s, built again: %+v, %v, %+v", what, u, err, e.list)
	}
}

func TestVectorsAreFoundByIndex(t *testing.T) {
	store := objstore.NewMemory("t")
	table := pointTable(t, store)
	var e events
	u, err := nearestAnswers(t.Context(), open(t, store, &e), table, scanPoints(t, table), 60)
	if err != nil || e.len() > 0 || u.indexed != 60 || u.covered != 4*60 || u.scanned != 60 {
		t.Fatalf("%+v, %v, %+v", u, err, e.list)
	}
}

// Bytes of the bundles with another value, one after the other: the same answers, and an event for those that matter.
func TestBytesOfVectorIndexes(t *testing.T) {
	store := objstore.NewMemory("t")
	table := pointTable(t, store)
	rows := scanPoints(t, table)
	was := objects(t, store)
	step := 1487
	if testing.Short() {
		step = 14891
	}
	flips, reported, at := 0, 0, 0
	for name, data := range was {
		if !strings.Contains(name, "/bundles/") {
			continue
		}
		step := step
		if len(data) < 50_000 {
			step /= 50
		}
		for i := 0; i < len(data); i += step {
			bad := bytes.Clone(data)
			bad[i] ^= 1 << (at % 8)
			at++
			put(t, store, name, bad)
			var e events
			s := overlay.NewSet(store, overlay.Options{Events: e.add})
			if _, err := nearestAnswers(t.Context(), s, table, rows, 3); err != nil {
				t.Fatalf("byte %d of %s: %v", i, name, err)
			}
			s.Close()
			if flips++; e.len() > 0 {
				reported++
			}
			if at%211 == 5 {
				healsPoints(t, store, table, fmt.Sprintf("byte %d of %s", i, name))
				restore(t, store, was)
			}
		}
		put(t, store, name, data)
	}
	t.Logf("%d flips, %d of them reported", flips, reported)
	if flips < 100 && !testing.Short() || reported < flips*8/10 {
		t.Errorf("of %d flips %d were reported", flips, reported)
	}
}

// Bundles gone, cut, longer, zeroed or exchanged.
func TestVectorBundlesGoneCutAndExchanged(t *testing.T) {
	store := objstore.NewMemory("t")
	table := pointTable(t, store)
	rows := scanPoints(t, table)
	was := objects(t, store)
	var names []string
	for name := range was {
		if strings.Contains(name, "/bundles/") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) < 3 {
		t.Fatalf("bundles %q", names)
	}
	tried := 0
	try := func(what string, silent bool, change func()) {
		t.Helper()
		change()
		var e events
		if _, err := nearestAnswers(t.Context(), open(t, store, &e), table, rows, 6); err != nil {
			t.Errorf("%s: %v", what, err)
		} else if e.len() == 0 && !silent {
			t.Errorf("%s: nothing was reported", what)
		}
		if tried++; tried%3 == 1 {
			healsPoints(t, store, table, what)
		}
		restore(t, store, was)
	}
	for i, name := range names {
		data := was[name]
		try(name+" deleted", false, func() {
			if err := store.Delete(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		})
		for _, n := range []int{0, 1, len(data) / 2} {
			try(fmt.Sprintf("%s cut to %d bytes", name, n), false, func() { put(t, store, name, data[:n]) })
		}
		try(name+" with bytes behind", true, func() { put(t, store, name, append(bytes.Clone(data), 0)) })
		try(name+" zeroed", false, func() { put(t, store, name, make([]byte, len(data))) })
		for _, other := range names[i+1:] {
			try(name+" and "+other+" exchanged", false, func() {
				put(t, store, name, was[other])
				put(t, store, other, data)
			})
		}
	}
}

// The artifacts of two files with as many rows are exchanged, each for the other: every checksum inside is right.
func TestVectorArtifactOfAnotherFile(t *testing.T) {
	store := objstore.NewMemory("t")
	table := newPoints(t, store, "twins")
	s := open(t, store, nil)
	for seed := range 3 {
		table = addPoints(t, table, points(uint64(seed), 60))
		build(t, s, table)
	}
	rows := scanPoints(t, table)
	plan, err := table.Plan(t.Context(), lake.Ref{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	view, err := s.Of(table).View(t.Context(), plan.Schema)
	if err != nil {
		t.Fatal(err)
	}
	was := objects(t, store)
	exchanged := 0
	for _, x := range view.Indexes() {
		var list []*overlay.Artifact
		for i := range plan.Files {
			a, _, err := x.Artifact(t.Context(), &plan.Files[i])
			if a == nil || err != nil {
				t.Fatal(a, err)
			}
			list = append(list, a)
		}
		for i, a := range list {
			for _, b := range list[i+1:] {
				one, two := was[a.Bundle][a.Offset:a.Offset+a.Length], was[b.Bundle][b.Offset:b.Offset+b.Length]
				if len(one) != len(two) {
					continue
				}
				exchanged++
				x1, x2 := bytes.Clone(was[a.Bundle]), bytes.Clone(was[b.Bundle])
				copy(x1[a.Offset:], two)
				copy(x2[b.Offset:], one)
				put(t, store, a.Bundle, x1)
				put(t, store, b.Bundle, x2)
				var e events
				if _, err := nearestAnswers(t.Context(), open(t, store, &e), table, rows, 6); err != nil || e.len() == 0 {
					t.Errorf("two artifacts of %s exchanged: %v, %d events", x.Name, err, e.len())
				}
				put(t, store, a.Bundle, was[a.Bundle])
				put(t, store, b.Bundle, was[b.Bundle])
			}
		}
	}
	if exchanged < 3 {
		t.Errorf("only %d pairs of artifacts are of one length", exchanged)
	}
}

// The table goes on: files are added, replaced as a compaction does, and all of it is overwritten; indexes of an older day
// are put back. No row of a file that is gone comes, and what has no index is scanned.
func TestVectorIndexesOfOlderStates(t *testing.T) {
	store := objstore.NewMemory("t")
	table := newPoints(t, store, "aging")
	s := open(t, store, nil)
	ask := func(what string, s *overlay.Set, covered int) {
		t.Helper()
		u, err := nearestAnswers(t.Context(), s, table, scanPoints(t, table), 9)
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if covered >= 0 && u.covered != 9*covered {
			t.Errorf("%s: %+v, want %d files in the index", what, u, covered)
		}
	}
	table = addPoints(t, table, points(1, 1250))
	table = addPoints(t, table, points(2, 50))
	build(t, s, table)
	ask("built", s, 2)
	old := objects(t, store)
	table = addPoints(t, table, points(3, 50))
	ask("one more file", s, 2)
	table = remove(t, table, 3)
	ask("rows deleted", s, 2)
	next, _, err := table.Overwrite(t.Context(), pointsOf(points(1, 1250)), lake.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	table = next
	ask("overwritten by the same rows", s, -1)
	build(t, s, table)
	ask("overwritten and built", s, 1)
	restore(t, store, old)
	for i, s := range []*overlay.Set{s, open(t, store, nil)} {
		ask(fmt.Sprintf("process %d with the indexes of before", i), s, -1)
	}
	build(t, open(t, store, nil), table)
	ask("built on the indexes of before", open(t, store, nil), 1)
	table, _, err = table.Replace(t.Context(), lake.CreateSpec{Schema: pointSchema}, pointsOf(points(7, 80)), lake.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	fresh := open(t, store, nil)
	plan, err := table.Plan(t.Context(), lake.Ref{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	view, err := fresh.Of(table).View(t.Context(), plan.Schema)
	if err != nil || len(view.Indexes()) > 0 {
		t.Errorf("indexes of a column that was replaced: %v, %v", view, err)
	}
}

// A data file is replaced under its name: the index is not believed, also by a process that opened it before.
func TestReplacedDataFileOfVectors(t *testing.T) {
	store, err := objstore.OpenLocal(t.TempDir(), objstore.LocalOptions{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	table := newPoints(t, store, "replaced")
	var e events
	s := open(t, store, &e)
	table = addPoints(t, table, points(1, 200))
	build(t, s, table)
	if u, err := nearestAnswers(t.Context(), s, table, scanPoints(t, table), 3); err != nil || u.indexed != 3 {
		t.Fatal(u, err)
	}
	plan, err := table.Plan(t.Context(), lake.Ref{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	other := addPoints(t, newPoints(t, store, "scratch"), points(2, 200))
	p, err := other.Plan(t.Context(), lake.Ref{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	data, _, err := objstore.ReadAll(t.Context(), store, p.Files[0].Name, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	put(t, store, plan.Files[0].Name, data)
	if int64(len(data)) != plan.Files[0].Size {
		t.Logf("the file has %d bytes, the other %d", plan.Files[0].Size, len(data))
	}
	for i, s := range []*overlay.Set{s, open(t, store, &e)} {
		before := e.len()
		view, err := s.Of(table).View(t.Context(), plan.Schema)
		if err != nil {
			t.Fatal(err)
		}
		n, ok, err := search.FindNearest(t.Context(), plan, view, search.NearestRequest{Field: 1, Query: vector.DenseQuery(points(9, 1)[0]), K: 3})
		if ok || err != nil || e.len() == before {
			t.Errorf("process %d: %+v, %v, %v, %d events", i, n, ok, err, e.len()-before)
		}
	}
}

// A bundle is cut short while it is mapped: what was there is a fault of memory, which becomes a scan and an event.
func TestMappedBundleCutShort(t *testing.T) {
	dir := t.TempDir()
	store, err := objstore.OpenLocal(dir, objstore.LocalOptions{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	table := newPoints(t, store, "cut")
	table = addPoints(t, table, points(1, 5000))
	table = addPoints(t, table, points(2, 300))
	build(t, open(t, store, nil), table)
	rows := scanPoints(t, table)
	for _, keep := range []int64{0, 5000, 100_000} {
		was := objects(t, store)
		for _, known := range []bool{true, false} {
			var e events
			s := open(t, store, &e)
			if known {
				if u, err := nearestAnswers(t.Context(), s, table, rows, 6); err != nil || u.indexed != 6 || e.len() > 0 {
					t.Fatal(u, err, e.list)
				}
			}
			cut := 0
			for name := range was {
				if !strings.Contains(name, "/bundles/") {
					continue
				}
				path, ok := store.(objstore.LocalPather).LocalPath(name)
				if !ok {
					t.Fatal(name)
				}
				if err := os.Truncate(path, keep); err != nil {
					t.Fatal(err)
				}
				cut++
			}
			for range 2 {
				if _, err := nearestAnswers(t.Context(), s, table, rows, 6); err != nil {
					t.Errorf("cut to %d bytes, known %v: %v", keep, known, err)
				}
			}
			if cut == 0 || e.len() == 0 {
				t.Errorf("cut %d bundles to %d bytes, known %v: %d events", cut, keep, known, e.len())
			}
			if keep > 0 && known {
				healsPoints(t, store, table, fmt.Sprintf("cut to %d bytes", keep))
			}
			restore(t, store, was)
		}
	}
}

func TestStoreFailsWhileVectorsAreAsked(t *testing.T) {
	store := objstore.NewMemory("t")
	table := pointTable(t, store)
	rows := scanPoints(t, table)
	for _, rules := range []string{
		"503 open *.puffin", "503 read *.puffin", "tear read *.puffin", "flip read *.puffin", "fail * *.puffin from 2 times 3", "flip read *.puffin at 3", "tear read *.puffin at 4", "flip read *.puffin at 7",
		"503 read v*.json", "tear read v*.json", "fail list *", "503 read v*-*", "deny open *.puffin", "503 stat *.parquet", "fail stat *.parquet at 2",
	} {
		f, err := objstore.NewFaulty(store, rules)
		if err != nil {
			t.Fatal(err)
		}
		s := open(t, f, nil)
		for range 2 {
			if _, err := nearestAnswers(t.Context(), s, table, rows, 6); err != nil {
				t.Errorf("%s: %v", rules, err)
			}
		}
		if err := f.Set(""); err != nil {
			t.Fatal(err)
		}
		u, err := nearestAnswers(t.Context(), s, table, rows, 6)
		if err != nil || u.indexed == 0 && !strings.Contains(rules, "flip") {
			t.Errorf("%s, over: %+v, %v", rules, u, err)
		}
	}
	var e events
	if _, err := nearestAnswers(t.Context(), open(t, short{store}, &e), table, rows, 6); err != nil || e.len() == 0 {
		t.Errorf("short reads: %v, %d events", err, e.len())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	e = events{}
	if _, err := nearestAnswers(ctx, open(t, store, &e), table, rows, 6); !errs.Is(err, errs.Canceled) && !errors.Is(err, context.Canceled) || e.len() > 0 {
		t.Errorf("an ended query gives %v and %d events", err, e.len())
	}
}

// A build is cancelled at some point, and goes on; two builders at once cover everything, once.
func TestBuildsOfVectors(t *testing.T) {
	store := objstore.NewMemory("t")
	table := newPoints(t, store, "builds")
	for i := range 3 {
		table = addPoints(t, table, points(uint64(i), 1500))
	}
	rows := scanPoints(t, table)
	canceled := 0
	for after := 0; ; after++ {
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		_, err := open(t, store, nil).Of(table).Build(ctx, table, overlay.BuildOptions{Progress: func(overlay.Progress) {
			if calls++; calls > after {
				cancel()
			}
		}})
		cancel()
		if err == nil {
			break
		}
		if canceled++; !errs.Is(err, errs.Canceled) {
			t.Errorf("cancelled after %d: %v", after, err)
		}
		if _, err := nearestAnswers(t.Context(), open(t, store, nil), table, rows, 6); err != nil {
			t.Errorf("cancelled after %d: %v", after, err)
		}
	}
	if canceled == 0 {
		t.Error("no build was cancelled")
	}
	table = addPoints(t, table, points(9, 1500))
	rows = scanPoints(t, table)
	done := make(chan error, 2)
	for range 2 {
		s := open(t, store, nil)
		go func() {
			_, err := s.Of(table).Cover(t.Context(), table, overlay.BuildOptions{})
			done <- err
		}()
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	var e events
	if u, err := nearestAnswers(t.Context(), open(t, store, &e), table, rows, 12); err != nil || u.indexed != 12 || u.scanned > 0 || e.len() > 0 {
		t.Errorf("two builders: %+v, %v, %+v", u, err, e.list)
	}
}
