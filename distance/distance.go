// Package distance answers: how far apart are vectors, in a program of your own, as fast as this machine can tell?
//
// A vector is a slice of float32, a bit vector a slice of packed bytes, a Sparse has the elements that are not 0. Many of
// them lie one after another in one slice, row by row: rows of n vectors of dim elements hold n·dim numbers. Everything is a
// method of a Device, which says what computes; Auto is right for most programs.
//
//	d, err := distance.Auto.Batch(distance.Cosine, query, rows, nil)
//	near, err := distance.Auto.Nearest(ctx, distance.L2, dim, 10, queries, rows)
//
// What always holds:
//
//	V1  Smaller is nearer, for every Metric: what ranks by similarity elsewhere has its sign turned here.
//	V2  A pair, a batch and a matrix give the same bits for the same two vectors, however many threads work. On machines of
//	    other instruction sets the last digits differ, because sums are added in another order.
//	V3  Sums run in float32, as in the engine and in pgvector, so squares of large numbers may overflow to infinity.
//	V4  Wrong lengths are errors of kind invalid, never panics; a device that is not there is an error of kind unsupported.
//	    overlake.KindOf and overlake.HintOf read them.
//	V5  NaN is not looked for in distances: a NaN in gives a NaN out, and so do some infinities. Rankings put NaN behind
//	    everything else. KMeans and Normalize, which it would spoil beyond one row, refuse what is not finite.
package distance

import (
	"context"
	"fmt"

	"github.com/overlakedb/overlake/internal/errs"
)

// Device says what computes.
type Device uint8

const (
	// Auto lets this package choose. Today it is CPU.
	Auto Device = iota
	// CPU is the processor, with the widest instructions that it has: AVX-512, AVX2 or plain. Large calls use
	// as many threads as runtime.GOMAXPROCS says.
	CPU
)

// String is auto or cpu.
func (d Device) String() string {
	switch d {
	case Auto:
		return "auto"
	case CPU:
		return "cpu"
	}
	return fmt.Sprintf("device(%d)", uint8(d))
}

// Metric is a distance.
type Metric uint8

const (
	// L2 is the Euclidean distance, pgvector's <->.
	L2 Metric = iota
	// SquaredL2 is its square, which ranks alike and needs no root.
	SquaredL2
	// NegativeInnerProduct is minus the inner product, pgvector's <#>.
	NegativeInnerProduct
	// Cosine is one minus the cosine of the angle, pgvector's <=>: from 0 to 2, and NaN when one of the vectors is zero.
	Cosine
	// L1 is the sum of absolute differences, pgvector's <+>.
	L1
	// Hamming is the number of bits in which two bit vectors differ, pgvector's <~>. Above 2²⁴ it is rounded.
	Hamming
	// Jaccard is one minus the share of the bits set in both among those set in either, pgvector's <%>: 1 when none is
	// set in both.
	Jaccard
)

var metricNames = [...]string{"l2", "squared_l2", "negative_inner_product", "cosine", "l1", "hamming", "jaccard"}

// String is the name of the metric in lower case.
func (m Metric) String() string {
	if int(m) < len(metricNames) {
		return metricNames[m]
	}
	return fmt.Sprintf("metric(%d)", uint8(m))
}

func (m Metric) ofNumbers(op string) error {
	if m > L1 {
		return invalid(op, "%s is not a distance of numbers", m)
	}
	return nil
}

func (m Metric) ofBits(op string) error {
	if m != Hamming && m != Jaccard {
		return invalid(op, "%s is not a distance of bits", m)
	}
	return nil
}

// engine is what a device can do. What it is given is checked: there is at least one query and one row, and out has room.
type engine interface {
	// pair is the distance of two vectors.
	pair(m Metric, a, b []float32) float32
	// dense fills out with the distances of every query to every row, query by query.
	dense(ctx context.Context, m Metric, dim int, queries, rows, out []float32) error
	// nearest finds the k nearest rows of every query, nearest first; k is at most the number of rows.
	nearest(ctx context.Context, m Metric, dim, k int, queries, rows []float32, ids []int, out []float32) error
	// bits is dense for bit vectors of size bytes.
	bits(ctx context.Context, m Metric, size int, queries, rows []byte, out []float32) error
	// assign finds for each point the nearest centroid by squared Euclidean distance. shift is taken from points and
	// centroids before, so that what they have in common costs no digits.
	assign(ctx context.Context, dim int, points, centroids, shift []float32, ids []uint32) error
}

// engine gives what computes on the device.
func (d Device) engine(op string) (engine, error) {
	switch d {
	case Auto, CPU:
		return cpu{}, nil
	}
	return nil, errs.New(errs.Unsupported, op, "there is no such device", errs.On(d.String()), errs.Hint("use Auto or CPU"))
}

func invalid(op, format string, args ...any) error {
	return errs.Newf(errs.Invalid, op, format, args...)
}

// count gives how many vectors of dim elements a slice holds.
func count(op, what string, dim, length int) (int, error) {
	switch {
	case dim < 1:
		return 0, invalid(op, "a vector has at least 1 element, not %d", dim)
	case length%dim != 0:
		return 0, invalid(op, "%d elements of %s are not whole vectors of %d", length, what, dim)
	}
	return length / dim, nil
}

// maxMade bounds what a matrix allocates by itself, in numbers.
const maxMade = 1 << 31

// room gives a slice of the length, in the memory of out where that has enough.
func room(op string, out []float32, n, each int) ([]float32, error) {
	if each > 0 && n > (cap(out)+maxMade)/each {
		return nil, errs.New(errs.Exhausted, op, fmt.Sprintf("a matrix of %d rows of %d distances is too large to be made here", n, each),
			errs.Hint("give a slice of your own that is large enough, or ask for fewer queries at once"))
	}
	if n *= each; n <= cap(out) {
		return out[:n], nil
	}
	if n > maxMade {
		return nil, errs.New(errs.Exhausted, op, fmt.Sprintf("a matrix of %d distances is too large to be made here", n),
			errs.Hint("give a slice of your own that is large enough, or ask for fewer queries at once"))
	}
	return make([]float32, n), nil
}
