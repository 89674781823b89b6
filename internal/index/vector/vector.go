// Package vector answers: which rows are nearest to a vector?
//
// An artifact covers the rows of one data file or of a few, known by their position. Its kind is how it finds the nearest:
// by comparing all, along a graph (Malkov, Yashunin 2016), or in lists around centroids. All but flat find most of the true
// neighbours, not always all; how many is measured when an artifact is built and is the effort of a search by default.
// Bit strings are all compared and sparse vectors found by posting lists, whatever kind is asked for; both are exact.
//
//	V1  A search gives K hits whenever K rows that may be hits have a vector in the index; Result.Short tells otherwise.
//	V2  What cannot be compared in float32 is named by every search, in Result.Also, for the caller to look at.
//	V3  The bytes of an artifact never make a search panic; damage is errs.Corrupt.
package vector

import (
	"context"
	"encoding/json"
	"math"
	"runtime"
	"runtime/debug"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/vector/flat"
	"github.com/overlakedb/overlake/internal/index/vector/section"
	"github.com/overlakedb/overlake/internal/vec"
)

// BlobType is the type of an artifact in a bundle.
const BlobType = "overlake-vector-v1"

// Params of a search.
type Params struct {
	K int // hits wanted, at least 1; with Ranged 0 means all
	// Ef is the number of candidates of a graph, Probes the number of lists, Rerank the number of candidates that are
	// compared in full; 0 means what was found right when the artifact was built.
	Ef, Probes, Rerank int
	Exact              bool     // compare all
	Allowed            []uint64 // a bit for each position, set for rows that may be hits; nil: all
	AllowedCount       int64    // bits set in Allowed
	// Ranged asks for the rows nearer than Within, as Hit.Distance has it. Rows that are as far but for the last digits come
	// too.
	Ranged  bool
	Within  float64
	NotNull bool // rows that are NULL are not wanted
}

// Hit is a row with its distance, as the metric has it: the Euclidean distance, the negative inner product, one minus the
// cosine, the sum of absolute differences; of bit strings the Hamming and the Jaccard distance. It is what float32 makes of it.
type Hit struct {
	Pos      int64
	Distance float64
}

// Result of a search.
type Result struct {
	Hits []Hit   // ascending by distance, then position
	Also []int64 // rows that may be nearer, whose distance the index cannot tell
	// Short tells that there are fewer than K hits, and perhaps more rows that may be hits without a vector in the index: NULL,
	// or of length 0 by cosine.
	Short bool
	// Near is how much farther than a hit another row may be told that is as near or nearer: sums in another order have other
	// last digits. A share of the distance, which every metric has besides, is not in it.
	Near float64
	Work Work
}

// Work is what a search did.
type Work struct {
	Distances int64 // computed, of codes and of floats
	Reranked  int64 // of these, of floats
	Hops      int64 // rows of a graph whose links were followed
	Lists     int64 // lists read
	Strategy  string
}

// Add adds up work; the strategies that differ are listed.
func (w *Work) Add(o Work) {
	w.Distances += o.Distances
	w.Reranked += o.Reranked
	w.Hops += o.Hops
	w.Lists += o.Lists
	switch {
	case w.Strategy == "":
		w.Strategy = o.Strategy
	case o.Strategy != "" && w.Strategy != o.Strategy:
		w.Strategy = "several"
	}
}

// kindReader searches one kind.
type kindReader interface {
	search(ctx context.Context, q Query, p Params) ([]Hit, Work, error)
	memory() int64
	exact() bool
}

// Reader is an opened artifact. It is safe for concurrent use.
type Reader struct {
	file   *section.File
	head   head
	metric vec.Metric
	others []uint32
	kind   kindReader
}

// Open opens an artifact of the given size.
func Open(ctx context.Context, src section.Source, size int64) (r *Reader, err error) {
	defer guard("vector.open", &err)()
	f, err := section.Open(ctx, src, size)
	if err != nil {
		return nil, err
	}
	r = &Reader{file: f}
	// All sections at once: of a store far away each round counts.
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		defer guard("vector.open", &err)()
		return r.openHead(gctx)
	})
	g.Go(func() error {
		b, err := f.Load(gctx, othersSection)
		if err == nil {
			r.others, err = section.View[uint32](b)
		}
		return err
	})
	var opened *opened
	g.Go(func() (err error) {
		defer guard("vector.open", &err)()
		opened, err = openKind(gctx, f)
		return err
	})
	if err := g.Wait(); err != nil {
		return nil, err
	}
	h := &r.head
	for _, p := range r.others {
		if int64(p) >= h.Rows {
			return nil, corrupt("row %d of %d", p, h.Rows)
		}
	}
	if r.kind, err = opened.as(ctx, f, h, r.metric); err != nil {
		return nil, err
	}
	return r, nil
}

func corrupt(format string, args ...any) error {
	return errs.Newf(errs.Corrupt, "vector.open", format, args...)
}

// openHead reads and checks the head.
func (r *Reader) openHead(ctx context.Context) error {
	text, err := r.file.Load(ctx, headSection)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &r.head); err != nil {
		return corrupt("the head is no JSON: %v", err)
	}
	h := &r.head
	m, ok := ParseMetric(h.Metric)
	if !ok || !IsKind(string(h.Kind)) || !IsKind(string(h.Built)) && h.Built.form() == Dense {
		return errs.Newf(errs.Unsupported, "vector.open", "an index of kind %q by %q", h.Built, h.Metric)
	}
	r.metric = m
	if h.Longest < 0 || h.Rows < 0 || h.Rows > math.MaxUint32 || h.Vectors < 0 || h.Nulls < 0 || h.Zeros < 0 || h.Vectors > h.Rows || h.Dim < 0 || h.Dim == 0 && h.Vectors > 0 {
		return corrupt("the head counts %d vectors in %d rows", h.Vectors, h.Rows)
	}
	return nil
}

// Stats describe the artifact.
func (r *Reader) Stats() Stats {
	return Stats{Rows: r.head.Rows, Vectors: r.head.Vectors, Nulls: r.head.Nulls, Zeros: r.head.Zeros, Size: r.file.Size()}
}

// Sum is the CRC-32C of the artifact.
func (r *Reader) Sum() uint32 { return r.file.Sum() }

// Kind is how the artifact was asked for, Built how it is.
func (r *Reader) Kind() (asked, built Kind) { return r.head.Kind, r.head.Built }

// Metric is what distances are.
func (r *Reader) Metric() vec.Metric { return r.metric }

// Dim is the dimension of the vectors; 0 when there are none.
func (r *Reader) Dim() int { return r.head.Dim }

// Exact tells whether distances are of the vectors themselves; otherwise they are estimates.
func (r *Reader) Exact() bool { return r.kind.exact() }

// mappingCost is what a mapping counts as held, so that a cache that is bounded in bytes is in mappings too: a process can
// have some 65,000.
const mappingCost = 16 << 10

// Memory is what the reader holds in bytes, without what is mapped.
func (r *Reader) Memory() int64 {
	n := int64(4*len(r.others)) + 4096
	if maps := r.file.Maps(); maps > 0 {
		return n + r.file.Held() + int64(maps)*mappingCost
	}
	return n + r.kind.memory()
}

// Form is what the vectors are.
func (r *Reader) Form() Form { return r.head.Built.form() }

// Search is Find of a dense vector.
func (r *Reader) Search(ctx context.Context, query []float32, p Params) (Result, error) {
	return r.Find(ctx, DenseQuery(query), p)
}

// Find finds the nearest rows of those allowed. A query of another form or dimension is Invalid; one with elements that are
// no numbers, or that has no direction by cosine, is Unsupported: every row is as near.
func (r *Reader) Find(ctx context.Context, q Query, p Params) (res Result, err error) {
	defer runtime.KeepAlive(r) // what is mapped is there as long as the file is
	defer guard("vector.search", &err)()
	const op = "vector.search"
	if p.K < 0 || p.K == 0 && !p.Ranged || p.Within != p.Within {
		return res, errs.Newf(errs.Invalid, op, "%d hits were asked for, within %v", p.K, p.Within)
	}
	if q.Form != r.Form() {
		return res, errs.Newf(errs.Invalid, op, "a query of %s in an index of %s", q.Form, r.Form())
	}
	if r.head.Vectors > 0 && q.Dim() != r.head.Dim {
		return res, errs.Newf(errs.Invalid, op, "a query of %d dimensions in an index of %d", q.Dim(), r.head.Dim)
	}
	square := q.length()
	if !(square <= farthest) || r.metric == vec.MetricCosine && square < shortest {
		return res, errs.New(errs.Unsupported, op, "the query is too long or too short for an index")
	}
	if r.metric == vec.MetricCosine && q.Form == Dense {
		q.Floats = slices.Clone(q.Floats)
		scale := float32(1 / math.Sqrt(float64(square)))
		for i := range q.Floats {
			q.Floats[i] *= scale
		}
	}
	for _, pos := range r.others {
		if p.Allowed == nil || int(pos>>6) < len(p.Allowed) && p.Allowed[pos>>6]>>(pos&63)&1 != 0 {
			res.Also = append(res.Also, int64(pos))
		}
	}
	if r.head.Vectors > 0 && (p.Allowed == nil || p.AllowedCount > 0) {
		if res.Hits, res.Work, err = r.kind.search(ctx, q, p); err != nil {
			return Result{}, err
		}
	}
	for i := range res.Hits {
		h := &res.Hits[i]
		if h.Pos < 0 || h.Pos >= r.head.Rows {
			return Result{}, errs.Newf(errs.Corrupt, op, "row %d of %d", h.Pos, r.head.Rows)
		}
		if r.metric == vec.MetricL2 {
			h.Distance = math.Sqrt(max(h.Distance, 0))
		}
	}
	without := r.head.Zeros
	if !p.NotNull {
		without += r.head.Nulls
	}
	if all := int64(len(res.Hits) + len(res.Also)); p.Allowed != nil && p.AllowedCount <= all {
		without = 0 // all that may be hits are
	}
	res.Short = !p.Ranged && len(res.Hits) < p.K && without > 0
	res.Near = r.near(&q)
	return res, nil
}

// bound is the distance that a kind compares with, for a search in a range; 0 means that there is none. Sums of float32 differ
// in their last digits, so it is a little farther.
func (p *Params) bound(m vec.Metric) float32 {
	if !p.Ranged {
		return 0
	}
	w := p.within(m)
	if w == 0 {
		w = math.SmallestNonzeroFloat32
	}
	return float32(max(-math.MaxFloat32, min(w, math.MaxFloat32)))
}

// near is Result.Near. A sum of n products in float32 is wrong by at most about n/4 roundings of the product of the lengths,
// when four sums run side by side, and by about the root of it as a rule.
func (r *Reader) near(q *Query) float64 {
	roundings := (16 + 3*math.Sqrt(float64(r.head.Dim))) * 2 * 0x1p-24
	switch r.metric {
	case vec.MetricCosine:
		return roundings
	case vec.MetricDot:
		return roundings * math.Sqrt(float64(q.length())) * r.head.Longest
	case vec.MetricL2: // squares below the range of float32
		return math.Sqrt(float64(r.head.Dim) * 4 * math.SmallestNonzeroFloat32)
	}
	return 0
}

// within is the bound as it is compared, in float64.
func (p *Params) within(m vec.Metric) float64 {
	w := p.Within
	if m == vec.MetricL2 {
		w *= math.Abs(w)
	}
	return w + math.Abs(w)*1e-5 + 1e-6
}

// guard makes an error of a fault in mapped memory, when a file was cut short, and of an index out of its range, when bytes
// were changed after they were checked.
func guard(op string, err *error) func() {
	old := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(old)
		if x := recover(); x != nil {
			*err = errs.With(errs.Newf(errs.Corrupt, op, "%v", x), errs.Hint("REINDEX builds the index anew"))
		}
	}
}

// flatReader is the kind flat.
type flatReader struct {
	x      *flat.Index
	metric vec.Metric
	dim    int
}

func (f flatReader) search(ctx context.Context, q Query, p Params) ([]Hit, Work, error) {
	hits, n, err := f.x.Search(ctx, q.Floats, flat.Params{K: p.K, Allowed: p.Allowed, Within: p.bound(f.metric)})
	out := make([]Hit, len(hits))
	for i, h := range hits {
		out[i] = Hit{int64(h.Pos), float64(h.Distance)}
	}
	return out, Work{Distances: n, Reranked: n, Strategy: "all compared"}, err
}

func (f flatReader) memory() int64 { return int64(f.x.Len()) * int64(4*f.dim+4) }

func (f flatReader) exact() bool { return true }
