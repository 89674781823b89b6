package points

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/overlakedb/overlake/internal/vec"
)

// Set is what is measured: rows, and queries against them.
type Set struct {
	Name     string
	Dim      int
	Metric   vec.Metric // of cosine, all vectors have length 1, so that every peer ranks alike
	Base     []float32
	Clusters []uint16 // of each row, when the set is made
	Queries  []Queries
}

// Queries is a list of queries that are measured together.
type Queries struct {
	Name string // empty for those like the rows
	Rows []float32
}

// Len is the number of rows.
func (s *Set) Len() int { return len(s.Base) / s.Dim }

// Places says where the sets lie that are not made.
type Places struct {
	Examples string // the project's examples
	Shared   string // the collections beside the checkout
}

// Source is a set by name.
type Source struct {
	Name string
	Full bool // a large one, which a short run leaves out
	Make func(p Places, queries int) (*Set, error)
}

// seed of all that is made.
const seed = 20260930

// Sources lists the sets in the order in which they are measured.
var Sources = []Source{
	{Name: "clusters-20k-128", Make: made("clusters-20k-128", Clusters{Seed: seed, Dim: 128}, 20_000, vec.MetricL2, true)},
	{Name: "sift-10k-128", Full: true, Make: read("sift-10k-128", vec.MetricL2, 128, "shared", "data/vectors-sift/base.parquet", "data/vectors-sift/queries.parquet")},
	{Name: "fashion-1k-784", Full: true, Make: read("fashion-1k-784", vec.MetricL2, 784, "shared", "data/vectors-fmnist/base.parquet", "data/vectors-fmnist/queries.parquet")},
	{Name: "fashion-1k-784-cosine", Full: true, Make: read("fashion-1k-784-cosine", vec.MetricCosine, 784, "shared", "data/vectors-fmnist/base.parquet", "data/vectors-fmnist/queries.parquet")},
	{Name: "fiori-778-384", Full: true, Make: read("fiori-778-384", vec.MetricCosine, 384, "examples", "fiori-docs/docs.parquet", "fiori-docs/docs.parquet")},
	{Name: "clusters-100k-128", Full: true, Make: made("clusters-100k-128", Clusters{Seed: seed, Dim: 128}, 100_000, vec.MetricL2, true)},
	{Name: "clusters-100k-128-ip", Full: true, Make: made("clusters-100k-128-ip", Clusters{Seed: seed, Dim: 128}, 100_000, vec.MetricDot, false)},
	{Name: "clusters-100k-768", Full: true, Make: made("clusters-100k-768", Clusters{Seed: seed, Dim: 768, Unit: true}, 100_000, vec.MetricCosine, true)},
	{Name: "clusters-1m-128", Full: true, Make: made("clusters-1m-128", Clusters{Seed: seed, Dim: 128}, 1_000_000, vec.MetricL2, false)},
}

func made(name string, c Clusters, n int, metric vec.Metric, shifted bool) func(Places, int) (*Set, error) {
	return func(_ Places, queries int) (*Set, error) {
		s := &Set{Name: name, Dim: c.Dim, Metric: metric}
		s.Base, s.Clusters = c.Rows(n)
		s.Queries = []Queries{{Rows: c.Queries(queries)}}
		if shifted {
			s.Queries = append(s.Queries, Queries{Name: "shifted", Rows: c.Shifted(queries)})
		}
		return s, nil
	}
}

// ErrAbsent says that the collection of a set is not on this machine.
var ErrAbsent = errors.New("the collection is not here")

func read(name string, metric vec.Metric, dim int, place, base, queries string) func(Places, int) (*Set, error) {
	return func(p Places, n int) (*Set, error) {
		dir := p.Examples
		if place == "shared" {
			dir = p.Shared
		}
		s := &Set{Name: name, Dim: dim, Metric: metric}
		var err error
		if s.Base, err = vectors(filepath.Join(dir, base), dim); err != nil {
			return nil, err
		}
		q, err := vectors(filepath.Join(dir, queries), dim)
		if err != nil {
			return nil, err
		}
		q = q[:min(len(q), n*dim)]
		if metric == vec.MetricCosine {
			unit(s.Base, dim)
			unit(q, dim)
		}
		s.Queries = []Queries{{Rows: q}}
		return s, nil
	}
}

// unit gives every row length 1.
func unit(rows []float32, dim int) {
	for at := 0; at < len(rows); at += dim {
		r := rows[at : at+dim]
		if length := vec.Norm(r); length > 0 {
			for i := range r {
				r[i] = float32(float64(r[i]) / length)
			}
		}
	}
}

// vectors reads the column "vector" of a Parquet file: lists of dim bytes or floats.
func vectors(path string, dim int) ([]float32, error) {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", path, ErrAbsent)
	}
	f, err := file.OpenParquetFile(path, false)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := pqarrow.NewFileReader(f, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
	if err != nil {
		return nil, err
	}
	t, err := r.ReadTable(context.Background())
	if err != nil {
		return nil, err
	}
	defer t.Release()
	at := t.Schema().FieldIndices("vector")
	if len(at) != 1 {
		return nil, fmt.Errorf("%s has no column named vector", path)
	}
	var out []float32
	for _, chunk := range t.Column(at[0]).Data().Chunks() {
		l, ok := chunk.(*array.List)
		if !ok {
			return nil, fmt.Errorf("%s: a vector is %s", path, chunk.DataType())
		}
		for i := range l.Len() {
			from, to := l.ValueOffsets(i)
			if to-from != int64(dim) {
				return nil, fmt.Errorf("%s: a vector has %d elements, not %d", path, to-from, dim)
			}
			switch v := l.ListValues().(type) {
			case *array.Float32:
				out = append(out, v.Float32Values()[from:to]...)
			case *array.Uint8:
				for _, x := range v.Uint8Values()[from:to] {
					out = append(out, float32(x))
				}
			default:
				return nil, fmt.Errorf("%s: elements are %s", path, v.DataType())
			}
		}
	}
	if len(out) == 0 || math.IsNaN(float64(out[0])) {
		return nil, fmt.Errorf("%s holds no vectors", path)
	}
	return out, nil
}
