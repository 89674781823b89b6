// Package segment answers: where is every term of these texts, and which texts are best for a few of them?
//
// A segment is an artifact of a text index: one or several fields over the rows of one data file or of a few, numbered
// through. It is written once, by a Builder or a Merge, and read by any number of goroutines. A Reader is a posting.Source;
// beside that it finds the best rows for flat queries itself, without looking at postings that cannot matter.
//
// A term has a posting list, cut into blocks of 128 (package block). Each full list keeps, for every block, its last row and the
// most that a posting of it can be worth; so a search jumps over blocks, by row or by worth. Terms lie in a dictionary of
// blocks of 64, front coded. Terms of few postings share a run of bytes with their neighbours, and a term that stands once
// has its posting in the dictionary itself.
//
//	G1  The same texts give the same bytes, however much memory there was, and whether built at once or merged.
//	G2  Nothing is used that was not compared with its checksum: sections that are held or mapped on first use, ranges on
//	    every read.
//	G3  Scores are those of package similarity to the last bit, whatever was left out on the way, and the order of equal
//	    scores is that of rows.
//	G4  What is read of bytes is checked before it is used as a place, a length or a row. Damage is an error of kind Corrupt,
//	    never a panic.
package segment

import (
	"context"
	"io"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/vector/section"
)

// BlobType names an artifact in a bundle.
const BlobType = "overlake-text-v1"

// The sections, in the order in which they are written. docs/format/text-index.md says what each byte means.
const (
	postingsSection   section.Kind = 600
	lengthsSection    section.Kind = 601
	dictionarySection section.Kind = 602
	indexSection      section.Kind = 603
	headSection       section.Kind = 604
)

// format is the number of the format in the head.
const format = 1

// Limits of a segment.
const (
	MaxRows   = 1 << 31 // rows
	MaxTerm   = 1 << 16 // bytes of a term
	MaxFields = 1024
)

const (
	termsPerBlock = 64  // of the dictionary
	smallDocs     = 128 // a term of fewer rows
	smallFreq     = 512 // that stands fewer times has no run of its own
	tailRead      = 64 << 10
	mergeGap      = 32 << 10 // ranges nearer than this are read as one
)

// SpillFile is a temporary file of a builder or a merge. It is gone when it is closed.
type SpillFile interface {
	io.Writer
	io.ReaderAt
	io.Closer
}

// Source reads bytes of an artifact, counted from its begin. Where it is a section.Mapper too, large sections are mapped
// into memory.
type Source = section.Source

func corrupt(format string, args ...any) error {
	return errs.Newf(errs.Corrupt, "segment.read", format, args...)
}

func canceled(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return errs.Wrap(errs.Canceled, "segment", err)
	}
	return nil
}
