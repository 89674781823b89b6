package search_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/overlakedb/overlake/internal/index/vector"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/objstore"
	"github.com/overlakedb/overlake/internal/objstore/storetest"
	"github.com/overlakedb/overlake/internal/overlay"
	"github.com/overlakedb/overlake/internal/search"
)

// TestFarArtifactsAreReadOnce counts the requests for bundles of a store that cannot map: searches that were made before ask for
// nothing again, of a graph that takes most of the cache, and of lists that are read by ranges. A cache that is too small for
// either is told by the count.
func TestFarArtifactsAreReadOnce(t *testing.T) {
	const n, dim = 5200, 448 // lists of more bytes are read by ranges
	near := objstore.NewMemory("kept")
	schema := arrow.NewSchema([]arrow.Field{{Name: "e", Type: arrow.ListOf(arrow.PrimitiveTypes.Float32), Nullable: true}}, nil)
	table, err := lake.OpenFileCatalog(near).Create(t.Context(), lake.Ident{Namespace: lake.DefaultNamespace, Name: "kept"}, lake.CreateSpec{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	vectors := make([][]float32, n)
	for i := range vectors {
		vectors[i] = make([]float32, dim)
		for k := range vectors[i] {
			vectors[i][k] = float32(i%13*(k%5)) + float32(rng.NormFloat64())
		}
		b.Field(0).(*array.ListBuilder).Append(true)
		b.Field(0).(*array.ListBuilder).ValueBuilder().(*array.Float32Builder).AppendValues(vectors[i], nil)
	}
	rec := b.NewRecordBatch()
	defer rec.Release()
	rows, err := array.NewRecordReader(schema, []arrow.RecordBatch{rec})
	if err != nil {
		t.Fatal(err)
	}
	if table, _, err = table.Append(t.Context(), rows, lake.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	o := open(t, near, nil).Of(table)
	for _, s := range []overlay.Spec{{Name: "graph", Kind: "hnsw_tq8", Columns: []string{"e"}, Params: map[string]string{"m": "4", "ef_construction": "10"}},
		{Name: "lists", Kind: "ivf", Columns: []string{"e"}, Params: map[string]string{"lists": "40"}}} {
		if _, err := o.Define(t.Context(), table, s); err != nil {
			t.Fatal(err)
		}
	}
	build(t, open(t, near, nil), table)
	for _, c := range []struct {
		index string
		cache int64
		again bool // requests are made again
	}{{"graph", 24 << 20, false}, {"graph", 1 << 20, true}, {"lists", 24 << 20, false}, {"lists", 4 << 20, false}, {"lists", 20_000, true}} {
		far := &storetest.Far{Store: near}
		plan, err := table.Plan(t.Context(), lake.Ref{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		view, err := overlay.NewSet(far, overlay.Options{Cache: c.cache}).Of(table).View(t.Context(), plan.Schema)
		if err != nil {
			t.Fatal(err)
		}
		asked := func() (n int) {
			for i := range 4 {
				found, ok, err := search.FindNearest(t.Context(), plan, view, search.NearestRequest{Field: 1, Query: vector.DenseQuery(vectors[i*777]), K: 10, Only: c.index})
				if err != nil || !ok || found.Index != c.index {
					t.Fatalf("%s: %+v, %v, %v", c.index, found, ok, err)
				}
			}
			for _, r := range far.Rounds() {
				for _, x := range r {
					if strings.Contains(x, ".puffin") {
						n++
					}
				}
			}
			return n
		}
		first, second, third := asked(), asked(), asked()
		t.Logf("%s with %d bytes: %d requests, then %d and %d", c.index, c.cache, first, second, third)
		if first == 0 || (second+third > 0) != c.again {
			t.Errorf("%s with %d bytes: %d requests, then %d and %d", c.index, c.cache, first, second, third)
		}
	}
}
