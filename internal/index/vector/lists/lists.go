// Package lists answers: which vectors are nearest, when the rows are kept in many short lists?
//
// A *list* holds the rows that are nearer to its *centroid* than to any other (an inverted file). A search ranks the
// centroids, reads the lists of the nearest few, its *probes*, estimates the distances of their rows by short *codes*, and
// computes those of the best again by longer ones, the *rerank rows*. A row is known by its *position* in the artifact; its
// *place* is where it lies: rows are numbered list after list, in each by position.
//
//	V1  A hit is a row of the index, at its own position, once, and one that Allowed allows. There are K hits whenever K
//	    rows are allowed, however few they are and wherever they lie.
//	V2  An artifact is written once and never changed. Every byte that is used was checked: sections that are loaded by
//	    their checksums, lists and rerank rows that are read by range by sums of their own.
//	V3  Distances are by the best that the index holds: with a copy of the floats they are exact; else estimates, and
//	    those at the border of K or of Within may be on the wrong side.
//	V4  The same rows, options and seed give the same bytes on the same kind of machine, however many workers there are.
package lists

import (
	"fmt"
	"io"
	"math"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/vector/section"
	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/code"
)

// The sections of an artifact. docs/format/vector-lists.md describes them.
const (
	kindParams    section.Kind = 200 // what the index is, and how it is best searched
	kindCentroids section.Kind = 201 // float32, list by list: turned, and less the mean
	kindRoutes    section.Kind = 202 // the centroids again, in bytes
	kindDirectory section.Kind = 203 // 16 bytes a list
	kindLists     section.Kind = 204 // one piece a list: codes, positions, sums
	kindRerank    section.Kind = 205 // rerank rows by place
	kindPlaces    section.Kind = 206 // the place of each row, by position
	kindPositions section.Kind = 207 // the positions, where not all from 0 are there
)

// Options say what to build. The zero value of all but Dim gives lists of floats by the metric L2.
type Options struct {
	Metric vec.Metric
	Dim    int // elements of a vector

	// Lists is how many lists to make; 0 makes so many that one has 100 to 1,000 rows. There may be a few more, when cells
	// are split, and fewer, when there are few rows.
	Lists int

	// Code is what a search scans: Float32 compares floats, which is exact in the lists that it reads. The metric L1 has no
	// other.
	Code code.Kind

	// Rerank is what the best rows of a scan are compared by: Float32 (a copy of the rows), TQ8 or TQ4. With NoRerank, or
	// when Code is no worse, there is none.
	Rerank   code.Kind
	NoRerank bool

	Seed    uint64
	Workers int // goroutines; 0: as many as there are processors

	// Memory is how many bytes a build may hold, 4 MiB at least; 0: 1 GiB. 12 bytes a row come on top.
	Memory int64

	// Spill makes temporary files for rows that do not fit into Memory. Without it the build is Exhausted then.
	Spill func() (SpillFile, error)

	// Progress is called now and then, by one goroutine at a time: done of total units of work are done.
	Progress func(done, total int64)
}

// Default gives the options that are best for most: a scan by single bits, rerank rows of bytes. For L1, floats.
func Default(metric vec.Metric, dim int) Options {
	if metric == vec.MetricL1 {
		return Options{Metric: metric, Dim: dim}
	}
	return Options{Metric: metric, Dim: dim, Code: code.Bit1, Rerank: code.TQ8}
}

// SpillFile is a temporary file. What was written is read back; Close removes it.
type SpillFile interface {
	io.Writer
	io.ReaderAt
	io.Closer
}

const (
	defaultMemory = 1 << 30
	leastMemory   = 4 << 20
	maxDim        = 1 << 14   // as many as pgvector has, and a few more
	maxLists      = 1 << 20   // lists of an artifact
	maxRows       = 1<<31 - 1 // rows of an artifact
)

func (o *Options) check() error {
	const op = "lists.build"
	switch {
	case o.Dim < 1 || o.Dim > maxDim:
		return errs.Newf(errs.Invalid, op, "vectors of %d elements; lists can have 1 to %d", o.Dim, maxDim)
	case o.Lists < 0 || o.Lists > maxLists/4:
		return errs.Newf(errs.Invalid, op, "%d lists; 1 to %d can be made", o.Lists, maxLists/4)
	case o.Workers < 0 || o.Memory < 0:
		return errs.Newf(errs.Invalid, op, "%d workers with %d bytes", o.Workers, o.Memory)
	case o.Memory > 0 && o.Memory < leastMemory:
		return errs.Newf(errs.Invalid, op, "a build needs %d bytes, not %d", leastMemory, o.Memory)
	}
	for _, kind := range []code.Kind{o.Code, o.Rerank} {
		if _, err := code.New(kind, o.Metric, o.Dim, 0); err != nil && (kind == o.Code || !o.NoRerank) {
			return err
		}
	}
	if o.hasRerank() && o.Rerank == code.Bit1 {
		return errs.New(errs.Unsupported, op, "rerank rows of bit1", errs.Hint("use float32, tq8, tq4 or none"))
	}
	return nil
}

// hasRerank: rerank rows must be better than what is scanned.
func (o *Options) hasRerank() bool { return !o.NoRerank && o.Rerank < o.Code }

// Hit is a row that was found.
type Hit struct {
	Pos      uint32
	Distance float32 // squared for L2, the negative inner product for Dot, one minus the cosine for Cosine
}

// Work is what a search did.
type Work struct {
	Lists     int64  // lists of which rows were scanned
	Scanned   int64  // rows estimated by their codes
	Reranked  int64  // rows compared by rerank rows
	Distances int64  // comparisons of all kinds, those with centroids too
	Requests  int64  // ranges read of the artifact
	Bytes     int64  // bytes read of the artifact
	Strategy  string // how: "probe", "masked", "exact" or "range"
}

// Stats is what was built.
type Stats struct {
	Rows    int64
	Lists   int
	Largest int     // rows of the longest list
	Spilled int64   // bytes written to temporary files
	Recall  float64 // of a search with K of 10 and defaults, measured on rows of the index
	Probes  int     // of such a search
	Rerank  int     // of such a search
	Held    int64   // the most bytes of rows and records held at once
}

// coders are how vectors of an index become rows.
type coders struct {
	scan   *code.Coder // what a search scans
	rerank *code.Coder // nil: none
	route  *code.Coder // centroids in bytes; nil for L1
}

func newCoders(p *params) (coders, error) {
	var c coders
	var err error
	if c.scan, err = code.New(p.code, p.metric, p.dim, p.seed); err != nil {
		return c, err
	}
	if p.hasRerank {
		if c.rerank, err = code.New(p.rerank, p.metric, p.dim, p.seed); err != nil {
			return c, err
		}
	}
	if p.metric != vec.MetricL1 {
		c.route, err = code.New(code.TQ8, vec.MetricDot, p.dim, p.seed)
	}
	return c, err
}

// defaultLists is about the square root for few rows, and later so many that lists have 400 to 1,000 rows.
func defaultLists(rows int64) int {
	if rows < 1 {
		return 1
	}
	per := 400 * math.Pow(float64(rows)/250_000, 0.12)
	per = min(max(per, 100), 1000)
	return int(min(max(math.Round(float64(rows)/per), 1), maxLists/4))
}

func unsupported(format string, args ...any) error {
	return errs.Newf(errs.Unsupported, "lists.open", format, args...)
}

func corrupt(format string, args ...any) error {
	return errs.New(errs.Corrupt, "lists.open", fmt.Sprintf(format, args...), errs.Hint("the index can be built again"))
}
