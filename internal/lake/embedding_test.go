package lake_test

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/objstore"
)

// vectorField is a column of vectors.
func vectorField(name, typ string) arrow.Field {
	return arrow.Field{Name: name, Type: arrow.ListOf(arrow.PrimitiveTypes.Float32), Nullable: true, Metadata: arrow.MetadataFrom(map[string]string{lake.TypeKey: typ})}
}

// vectors is one row for each number: a vector of that many dimensions, NULL for 0.
func vectors(t testing.TB, column string, dims ...int) array.RecordReader {
	t.Helper()
	sc := arrow.NewSchema([]arrow.Field{{Name: column, Type: arrow.ListOf(arrow.PrimitiveTypes.Float32), Nullable: true}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, sc)
	defer b.Release()
	l := b.Field(0).(*array.ListBuilder)
	for _, n := range dims {
		if n == 0 {
			l.AppendNull()
			continue
		}
		l.Append(true)
		for range n {
			l.ValueBuilder().(*array.Float32Builder).Append(1)
		}
	}
	rec := b.NewRecordBatch()
	defer rec.Release()
	r, err := array.NewRecordReader(sc, []arrow.RecordBatch{rec})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// about makes properties of "field = value" about vectors.
func about(list ...string) map[string]string {
	out := map[string]string{}
	for _, s := range list {
		k, v, _ := strings.Cut(s, " = ")
		out["overlake.embedding."+k] = v
	}
	return out
}

func vectorTable(t testing.TB, c lake.Catalog, props map[string]string, fields ...arrow.Field) *lake.Table {
	t.Helper()
	return create(t, c, lake.CreateSpec{Schema: arrow.NewSchema(fields, nil), Properties: props})
}

func wantRefused(t testing.TB, err error, kind errs.Kind, says string) {
	t.Helper()
	if !errs.Is(err, kind) || !strings.Contains(err.Error(), says) || errs.HintOf(err) == "" {
		t.Errorf("got %v (hint %q), want %v that says %q", err, errs.HintOf(err), kind, says)
	}
}

// aside runs something between the batches of a reader.
type aside struct {
	array.RecordReader
	run func()
}

func (a *aside) Next() bool {
	if a.run != nil {
		a.run()
		a.run = nil
	}
	return a.RecordReader.Next()
}

func TestEmbeddingAtCreation(t *testing.T) {
	catalogs(t, func(t *testing.T, c lake.Catalog) {
		_, err := c.Create(t.Context(), docs, lake.CreateSpec{Schema: arrow.NewSchema([]arrow.Field{vectorField("e", "vector(768)")}, nil), Properties: about("model = bge-small-en-v1.5")})
		wantRefused(t, err, errs.Invalid, "384 dimensions, not 768")
		if _, err := c.Load(t.Context(), docs); !errs.Is(err, errs.NotFound) {
			t.Errorf("the table is there: %v", err)
		}
		tbl := vectorTable(t, c, about("model = bge-small-en-v1.5"), vectorField("e", "vector"))
		_, _, err = tbl.Replace(t.Context(), lake.CreateSpec{Schema: arrow.NewSchema([]arrow.Field{vectorField("e", "vector(5)")}, nil), Properties: about("dim = 6")}, nil, lake.WriteOptions{})
		wantRefused(t, err, errs.Invalid, "5 dimensions, not 6")
	})
}

// TestEmbeddingDimensionsOfRows: whatever writes rows, those of other dimensions are refused, and nothing of the write stays.
func TestEmbeddingDimensionsOfRows(t *testing.T) {
	catalogs(t, func(t *testing.T, c lake.Catalog) {
		for _, typ := range []string{"vector", "halfvec"} {
			tbl := vectorTable(t, c, about("model = mine", "dim = 3"), vectorField("e", typ))
			for name, write := range map[string]func(dims ...int) error{
				"append": func(dims ...int) error {
					_, _, err := tbl.Append(t.Context(), vectors(t, "e", dims...), lake.WriteOptions{})
					return err
				},
				"overwrite": func(dims ...int) error {
					_, _, err := tbl.Overwrite(t.Context(), vectors(t, "e", dims...), lake.WriteOptions{})
					return err
				},
				"replace": func(dims ...int) error {
					spec := lake.CreateSpec{Schema: arrow.NewSchema([]arrow.Field{vectorField("e", typ)}, nil), Properties: about("dim = 3")}
					_, _, err := tbl.Replace(t.Context(), spec, vectors(t, "e", dims...), lake.WriteOptions{})
					return err
				},
			} {
				before := reload(t, c).MetadataLocation()
				err := write(3, 0, 4)
				if !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "expected 3 dimensions, not 4") {
					t.Errorf("%s of %s: %v", name, typ, err)
				}
				if now := reload(t, c).MetadataLocation(); now != before {
					t.Errorf("%s of %s: the refused write made a version", name, typ)
				}
				if err := write(3, 0, 3); err != nil {
					t.Errorf("%s of %s: %v", name, typ, err)
				}
				tbl = reload(t, c)
			}
			if err := c.Drop(t.Context(), docs); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestEmbeddingStaysWithRows goes through what may be changed of a table without rows, with them, and without them again.
func TestEmbeddingStaysWithRows(t *testing.T) {
	catalogs(t, func(t *testing.T, c lake.Catalog) {
		tbl := vectorTable(t, c, about("model = e5-small-v2"), vectorField("e", "vector"))
		change := func(set map[string]string, remove ...string) error {
			next, err := tbl.SetProperties(t.Context(), set, remove...)
			if err == nil {
				tbl = next
			}
			return err
		}
		if err := change(about("model = mine", "dim = 2")); err != nil {
			t.Fatalf("without rows: %v", err)
		}
		wantRefused(t, change(nil, "overlake.embedding.dim"), errs.Invalid, "not known")
		tbl, _, _ = tbl.Append(t.Context(), vectors(t, "e", 2), lake.WriteOptions{})
		kept := tbl.MetadataLocation()
		wantRefused(t, change(about("model = yours")), errs.Invalid, "mine and cannot become yours")
		wantRefused(t, change(about("dim = 3")), errs.Invalid, "2 dimensions and cannot get 3")
		wantRefused(t, change(nil, "overlake.embedding.dim", "overlake.embedding.model"), errs.Invalid, "cannot become none")
		wantRefused(t, change(nil, "overlake.embedding.dim"), errs.Invalid, "not known")
		wantRefused(t, change(about("colour = red")), errs.Unsupported, "no such property")
		if now := reload(t, c).MetadataLocation(); now != kept {
			t.Error("a refused change made a version")
		}
		if err := change(about("provider = me", "endpoint = https://example.com/v1", "query_prefix = q: ", "e.model = mine", "e.dim = 2")); err != nil {
			t.Error(err)
		}
		if err := change(nil, "overlake.embedding.dim", "overlake.embedding.model", "overlake.embedding.query_prefix"); err != nil {
			t.Errorf("the other form says the same: %v", err)
		}
		tbl, _, err := tbl.Overwrite(t.Context(), vectors(t, "e"), lake.WriteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tbl.SetProperties(t.Context(), about("e.dim = 5", "e.model = yours")); err != nil {
			t.Errorf("without rows again: %v", err)
		}
	})
}

// TestEmbeddingFollowsColumns: a second column of vectors, a rename and a drop take the properties along.
func TestEmbeddingFollowsColumns(t *testing.T) {
	catalogs(t, func(t *testing.T, c lake.Catalog) {
		tbl := vectorTable(t, c, about("model = mine"), vectorField("e", "vector(2)"))
		tbl, _, _ = tbl.Append(t.Context(), vectors(t, "e", 2), lake.WriteOptions{})
		want := func(step string, list ...string) {
			t.Helper()
			got := map[string]string{}
			for k, v := range tbl.Properties() {
				if strings.HasPrefix(k, "overlake.embedding.") {
					got[k] = v
				}
			}
			if want := about(list...); !maps.Equal(got, want) {
				t.Errorf("%s: got %v, want %v", step, got, want)
			}
		}
		alter := func(changes ...lake.SchemaChange) {
			t.Helper()
			next, err := tbl.AlterSchema(t.Context(), changes...)
			if err != nil {
				t.Fatal(err)
			}
			tbl = next
		}
		alter(lake.RenameColumn{From: "e", To: "first"})
		want("a rename", "model = mine")
		alter(lake.AddColumn{Field: vectorField("second", "halfvec(3)")})
		want("a second column", "first.model = mine")
		_, err := tbl.SetProperties(t.Context(), about("model = other"))
		wantRefused(t, err, errs.Invalid, "first, second")
		if tbl, err = tbl.SetProperties(t.Context(), about("second.model = other")); err != nil {
			t.Fatal(err)
		}
		alter(lake.RenameColumn{From: "first", To: "one"}, lake.RenameColumn{From: "second", To: "two"})
		want("two renames", "one.model = mine", "two.model = other")
		alter(lake.DropColumn{Name: "one"}, lake.AddColumn{Field: vectorField("one", "vector(9)")})
		want("a drop", "two.model = other")
		if _, err := tbl.SetProperties(t.Context(), about("one.model = third")); err != nil {
			t.Errorf("a new column of an old name: %v", err)
		}
	})
}

// TestEmbeddingChangedBeforeTheSwap: rows that another writer commits between the look at the table and the commit of an ALTER
// are seen, and an ALTER between the start and the commit of a write too.
func TestEmbeddingChangedBeforeTheSwap(t *testing.T) {
	for _, kind := range []string{"file", "sqlite"} {
		t.Run(kind, func(t *testing.T) {
			dir := t.TempDir()
			c, other := openShared(t, kind, dir), openShared(t, kind, dir)
			stale := vectorTable(t, c, nil, vectorField("e", "vector"))
			if _, _, err := reload(t, other).Append(t.Context(), vectors(t, "e", 2), lake.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
			_, err := stale.SetProperties(t.Context(), about("dim = 3"))
			wantRefused(t, err, errs.Invalid, "cannot be said to have 3")
			if err := other.Drop(t.Context(), docs); err != nil {
				t.Fatal(err)
			}

			tbl := vectorTable(t, c, about("model = mine", "dim = 2"), vectorField("e", "vector"))
			late := &aside{vectors(t, "e", 2), func() {
				if _, err := reload(t, other).SetProperties(t.Context(), about("model = yours")); err != nil {
					t.Error(err)
				}
			}}
			_, _, err = tbl.Append(t.Context(), late, lake.WriteOptions{})
			wantRefused(t, err, errs.Conflict, "changed while rows were written")
			now := reload(t, c)
			if _, rows := now.CurrentSnapshot(); rows || now.Properties()["overlake.embedding.model"] != "yours" {
				t.Errorf("rows %v under %v", rows, now.Properties())
			}
			// What says nothing else of the rows does no harm.
			late = &aside{vectors(t, "e", 2), func() {
				if _, err := reload(t, other).SetProperties(t.Context(), about("provider = somebody")); err != nil {
					t.Error(err)
				}
			}}
			if _, _, err := now.Append(t.Context(), late, lake.WriteOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestEmbeddingRace lets an ALTER that says 3 dimensions race with INSERTs of 2. Whoever is first, the other one is refused: never
// do rows of 2 dimensions stand under a promise of 3.
func TestEmbeddingRace(t *testing.T) {
	for _, kind := range []string{"file", "sqlite"} {
		t.Run(kind, func(t *testing.T) {
			s := t.TempDir()
			alters, inserts := openShared(t, kind, s), openShared(t, kind, s)
			first := map[string]int{}
			for round := range 25 {
				vectorTable(t, alters, nil, vectorField("e", "vector"))
				var wg sync.WaitGroup
				var altered error
				inserted := make([]error, 3)
				start := make(chan struct{})
				wg.Go(func() {
					tbl := reload(t, alters)
					<-start
					_, altered = tbl.SetProperties(t.Context(), about("model = mine", "dim = 3"))
				})
				for i := range inserted {
					wg.Go(func() {
						tbl := reload(t, inserts)
						<-start
						_, _, inserted[i] = tbl.Append(t.Context(), vectors(t, "e", 2), lake.WriteOptions{})
					})
				}
				close(start)
				wg.Wait()
				tbl := reload(t, openShared(t, kind, s))
				rows := 0
				if p, err := tbl.Plan(t.Context(), lake.Ref{}, nil); err != nil {
					t.Fatal(err)
				} else {
					for _, f := range p.Files {
						rows += int(f.Rows)
					}
				}
				done := 0
				for _, err := range inserted {
					switch {
					case err == nil:
						done++
					case !errs.Is(err, errs.Conflict) && !errs.Is(err, errs.Invalid):
						t.Errorf("round %d: an insert ended with %v", round, err)
					}
				}
				promise := tbl.Properties()["overlake.embedding.dim"]
				switch {
				case rows != done:
					t.Fatalf("round %d: %d rows of %d inserts", round, rows, done)
				case promise != "" && rows > 0:
					t.Fatalf("round %d: %d rows of 2 dimensions under a promise of %s", round, rows, promise)
				case (promise != "") != (altered == nil):
					t.Fatalf("round %d: the properties say %q, the change ended with %v", round, promise, altered)
				case altered != nil && (!errs.Is(altered, errs.Invalid) || rows == 0):
					t.Fatalf("round %d: the change ended with %v, with %d rows", round, altered, rows)
				case altered == nil:
					first["alter"]++
				default:
					first["insert"]++
				}
				if err := alters.Drop(t.Context(), docs); err != nil {
					t.Fatal(err)
				}
			}
			t.Logf("who was first: %v", first)
		})
	}
}

// TestEmbeddingCrowd lets ALTERs to many models race for a table without rows, with one INSERT for each: all rows that stand in
// the end were written under the model that the table names.
func TestEmbeddingCrowd(t *testing.T) {
	s, err := objstore.OpenLocal(t.TempDir(), objstore.LocalOptions{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	c := lake.OpenFileCatalog(s)
	for round := range 10 {
		vectorTable(t, c, about("model = m0", "dim = 2"), vectorField("e", "vector"))
		var wg sync.WaitGroup
		for i := 1; i <= 4; i++ {
			wg.Go(func() {
				tbl, err := c.Load(t.Context(), docs)
				if err != nil {
					t.Error(err)
					return
				}
				model := tbl.Properties()["overlake.embedding.model"]
				_, _, err = tbl.Append(t.Context(), vectors(t, "e", 2), lake.WriteOptions{Properties: map[string]string{"model": model}})
				if err != nil && !errs.Is(err, errs.Conflict) {
					t.Error(err)
				}
			})
			wg.Go(func() {
				tbl, err := c.Load(t.Context(), docs)
				if err == nil {
					_, err = tbl.SetProperties(t.Context(), about(fmt.Sprintf("model = m%d", i)))
				}
				if err != nil && !errs.Is(err, errs.Invalid) && !errs.Is(err, errs.Conflict) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		tbl := reload(t, c)
		is := tbl.Properties()["overlake.embedding.model"]
		for _, snap := range tbl.Snapshots() {
			if was := snap.Summary["model"]; was != is {
				t.Fatalf("round %d: rows of %s under %s", round, was, is)
			}
		}
		if err := c.Drop(t.Context(), docs); err != nil {
			t.Fatal(err)
		}
	}
}
