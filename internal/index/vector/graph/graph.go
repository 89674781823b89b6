// Package graph answers: which rows are nearest to a query, found by walking from neighbour to neighbour?
//
// An artifact is one immutable graph over the vectors of one column: the hierarchical navigable small world of Malkov and
// Yashunin ("Efficient and robust approximate nearest neighbor search using hierarchical navigable small world graphs",
// TPAMI 2020). A Builder makes one, an Index opens one and is searched. docs/format/vector-graph.md describes the bytes.
//
// A row is known to callers by its position. A node is a different vector: rows with equal vectors share a node, so that
// a thousand copies of one vector are no island in the graph. Nodes have numbers of their own, in an order in which
// neighbours lie together. A link is a directed edge. Level 0 holds all nodes, each level above a random share of those
// below; the walk begins on top. The pool is the sorted list of the nearest nodes seen so far, ef of them.
//
// Walks measure by what the artifact holds of a vector: floats, or a code of 8 or 4 bits (package code); then the best of
// the pool are measured again by floats, if the artifact keeps them.
//
// Invariants:
//
//	G1  A search never gives a row that the filter excludes, nor a row twice.
//	G2  K hits come back whenever K allowed rows exist: a walk that finds fewer, or would cost more than comparing the
//	    query with every allowed row, gives way to doing that.
//	G3  What is read from an artifact is checked when it is opened: every link leads to a node, of at least the level
//	    that it is on. Searches index without looking again.
//	G4  An Index is never changed; it is safe for concurrent use.
//	G5  A build with one worker gives the same bytes for the same seed and rows. With several, links differ.
package graph

import (
	"math"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/vector/section"
	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/code"
)

// The limits of options, which are those of the format too.
const (
	MaxDim            = 1 << 14
	MinM              = 2
	MaxM              = 100
	MinEfConstruction = 4
	MaxEfConstruction = 1000
	maxRows           = 1<<31 - 2 // the high bit of a node's number is used in pools
	maxLevel          = 31
)

// Options describe a graph and its build.
type Options struct {
	Metric         vec.Metric // L1 with Float32 only; for Cosine, rows are normalised when they are added
	Dim            int        // elements of a vector, 1 to MaxDim
	M              int        // links that a new node makes on each level; level 0 holds twice as many. 0: 16
	EfConstruction int        // the size of the pool while links are looked for, 2*M at least. 0: 200, or 2*M if that is more
	Code           code.Kind  // what walks measure by: Float32, TQ8 or TQ4
	Floats         bool       // keep the floats beside codes, to measure the best again; with Float32 they always are
	Seed           uint64     // of the rotation of codes, the order of insertion and the levels
	Workers        int        // goroutines of Finish; 0: as many as processors
	Rows           int64      // about how many rows will be added, so that memory is taken once; 0: not known
	Memory         int64      // bytes that the build may hold; 0: no limit

	// Progress is called from time to time with the nodes inserted and their number, by one goroutine at a time.
	Progress func(done, total int64)
}

const defaultM, defaultEfConstruction = 16, 200

// check fills in defaults.
func (o *Options) check() error {
	const op = "graph.new"
	if o.M == 0 {
		o.M = defaultM
	}
	if o.EfConstruction == 0 {
		o.EfConstruction = max(defaultEfConstruction, 2*o.M)
	}
	switch {
	case o.Metric > vec.MetricL1:
		return errs.Newf(errs.Unsupported, op, "the metric %s", o.Metric)
	case o.Code > code.TQ4:
		return errs.New(errs.Unsupported, op, "a graph over codes of the kind "+o.Code.String(), errs.Hint("use float32, tq8 or tq4"))
	case o.Dim < 1 || o.Dim > MaxDim:
		return errs.Newf(errs.Invalid, op, "vectors of %d elements; a graph takes 1 to %d", o.Dim, MaxDim)
	case o.M < MinM || o.M > MaxM:
		return errs.Newf(errs.Invalid, op, "m is %d; it must be from %d to %d", o.M, MinM, MaxM)
	case o.EfConstruction < MinEfConstruction || o.EfConstruction > MaxEfConstruction:
		return errs.Newf(errs.Invalid, op, "ef_construction is %d; it must be from %d to %d", o.EfConstruction, MinEfConstruction, MaxEfConstruction)
	case o.EfConstruction < 2*o.M:
		return errs.New(errs.Invalid, op, "ef_construction is less than two times m", errs.Hint("m is %d, so set ef_construction to %d or more", o.M, 2*o.M))
	case o.Workers < 0 || o.Rows < 0 || o.Memory < 0:
		return errs.Newf(errs.Invalid, op, "a number below zero: %d workers, %d rows, %d bytes", o.Workers, o.Rows, o.Memory)
	}
	return nil
}

// Params say what is searched for.
type Params struct {
	K int // hits; 0 with Within: all

	// Ef is the size of the pool: larger finds more and takes longer. 0: what gave a recall of 0.99 when the graph was built;
	// when no pool gave one of 0.95, every allowed row is compared.
	Ef int

	// Rerank is how many of the pool are measured again by floats, where the artifact keeps them beside codes. 0: somewhat
	// more than K, and then twice as many as long as there is one of the K nearest among the second half. Where the
	// artifact has codes alone any other number is Invalid. Where it has floats alone all distances are exact anyway.
	Rerank int

	Allowed      []uint64 // the positions that may be hits, a bit each; those beyond its end may not. nil: all
	AllowedCount int64    // the number of bits set in Allowed; 0: they are counted
	Exact        bool     // compare the query with every allowed row, by the best that the artifact has
	Within       float32  // rows at distances below this only; 0: no bound
}

// Hit is a row that was found.
type Hit struct {
	Pos uint32

	// Distance is the squared Euclidean distance, the negative inner product, one minus the cosine, or the sum of absolute
	// differences; an estimate where the artifact has codes alone. Under cosine a zero vector has the distance NaN and
	// comes last.
	Distance float32
}

// The strategies of a search, as Work names them.
const (
	StrategyExact    = "exact"      // every allowed row was compared
	StrategyGraph    = "graph"      // a walk; of a filtered search, one over all nodes
	StrategyTwoHop   = "graph 2hop" // a walk over allowed nodes, which jumps over others
	StrategyFallback = "graph, then exact"
)

// Work is what a search did.
type Work struct {
	Distances int64 // rows compared with the query, reranked ones not among them
	Hops      int64 // rows of links read
	Reranked  int64
	Strategy  string
}

// Calibration is what was measured when the graph was built: queries made of rows, the row itself left out.
type Calibration struct {
	Queries   int
	Ef95      int     // the least pool tried with a recall of the 10 nearest of 0.95; the largest tried when none had it
	Ef99      int     // the same for 0.99
	Recall95  float32 // the recall that was measured with Ef95
	Recall99  float32
	Distances int // rows compared in a search with Ef99, on average
}

// Stats sum up a build.
type Stats struct {
	Rows        int64 // rows added
	Nodes       int64 // different vectors
	Links       int64 // links on level 0
	TopLevel    int
	Memory      int64 // bytes that the build held at most, by its own account
	Calibration Calibration
}

// The sections of an artifact.
const (
	kindParams section.Kind = 100 + iota
	kindPositions
	kindNodes
	kindLinks
	kindUpperNodes
	kindUpperLinks
	kindRows
	kindFactors
	kindFloats
)

// none ends a row of links that is not full, and stands for the node of a row that has none.
const none = math.MaxUint32

// linkWidth is the number of uint32 of a row of links on level 0: a whole number of cache lines.
func linkWidth(m int) int { return (2*m + 15) &^ 15 }
