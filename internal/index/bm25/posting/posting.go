// Package posting answers: where does a term stand?
//
// A source holds the texts of some rows, numbered from 0: one artifact of a text index, or rows that were analyzed just now.
// It has fields (the columns of the index, by their place), each with a dictionary of terms, and for each term its postings:
// the rows it stands in, how often, and at which positions. What a query means and how rows are scored is decided above,
// once, over any source; this room only says what a source must be able to tell.
package posting

import (
	"context"
	"math"
)

// End is the row number behind the last: what a cursor gives when there is no further row.
const End uint32 = math.MaxUint32

// Stats are what the similarity needs to know of a field. Deleted rows count until their file is rewritten.
type Stats struct {
	Docs             int64 // rows with at least one term
	SumTotalTermFreq int64 // terms in all of them
}

// Term is an entry of a dictionary. The zero value is a term that stands nowhere.
type Term struct {
	DocFreq   int64     // rows the term stands in
	TotalFreq int64     // how often it stands there, all together
	At        [4]uint64 // where the source finds its postings; no one else's business
}

// Source is safe for concurrent use. Its errors are those of reading; of kind Corrupt when the bytes are not what they
// should be.
type Source interface {
	// Rows is the number of rows, with and without text.
	Rows() uint32

	// Stats are those of a field over the rows of this source.
	Stats(field int) Stats

	// Lookup finds terms of a field in one round of reads. The result is as long as terms.
	Lookup(ctx context.Context, field int, terms [][]byte) ([]Term, error)

	// Walk gives the terms of a field in the order of their bytes, from the first that is not less than from. yield says
	// whether to go on, and, with a seek that is not nil, from which term on; it must be greater than the term given. The
	// bytes of term are valid during the call.
	Walk(ctx context.Context, field int, from []byte, yield func(term []byte, t Term) (seek []byte, more bool)) error

	// Lengths are the length bytes of all rows in a field, 0 where it holds no term. They are not to be changed.
	Lengths(ctx context.Context, field int) ([]byte, error)

	// Postings are those of a term that Lookup or Walk of this source gave. Where positions is not set, the cursor has none.
	Postings(ctx context.Context, field int, t Term, positions bool) (Cursor, error)
}

// Cursor goes over the postings of one term in the order of the rows. It belongs to one goroutine. Before the first move it
// stands on no row.
type Cursor interface {
	// Row is the row the cursor stands on, End behind the last.
	Row() uint32

	// Next moves to the next row and gives it.
	Next() uint32

	// Advance moves to the first row that is not less than target and gives it. It never moves back.
	Advance(target uint32) uint32

	// Freq is how often the term stands in the row.
	Freq() uint32

	// Positions are those of the term in the row, ascending; nil where the cursor was opened without. They are valid until
	// the next move.
	Positions() []uint32

	// Err is what stopped the cursor early, which then stands at End. Look before trusting End.
	Err() error
}
