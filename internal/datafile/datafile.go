// Package datafile answers two questions: how do rows become the bytes of a data file, and which rows are at these
// positions?
//
// A Writer turns Arrow batches into one Parquet file and says at the end what the file holds (Meta). A File reads: its
// schema, the rows of chosen columns in order (Read), or the rows at given positions (Fetch). A position is the ordinal of
// a row in its file, counted from 0 over all row groups; it is what Iceberg's position deletes and our indexes name rows
// by. A leaf is a column of Parquet: a field of the schema that holds values, under its path through structs, lists and
// maps.
//
// What every file of ours promises (docs/format/data-files.md says the same to other programs):
//
//	D1  A page index, always, and V2 data pages.
//	D2  No row lies in two pages of a leaf: pages begin at rows, lists included.
//	D3  A field id on every field, element, key and value, or, when the schema has none, on none.
//	D4  Bounds are never narrower than the values, hold no NaN, and are absent rather than guessed.
//
// and what reading promises:
//
//	R1  Outside bytes are an error, never a panic: every entry into the Parquet library recovers, and nothing of the library
//	    that can fail runs on a goroutine of its own.
//	R2  A number from the file is compared with the bytes there are before memory follows it, and what a batch may take is
//	    bounded (Limits).
//	R3  Lists are sought only where the seek is known to be right: V2 pages with a page index, a fresh column reader for
//	    every seek. Everything else is read in order from the start of its row group.
//	R4  What Fetch decodes by itself (columns of one value in a row, structs of these, lists of numbers) has the values that the library gives.
//	    A page that it does not understand it leaves to the library, which also judges what is broken.
//
// Only this room knows Parquet.
package datafile

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/overlakedb/overlake/internal/errs"
)

// FieldIDKey is the Arrow field metadata that carries an Iceberg field id, as decimal text.
const FieldIDKey = "PARQUET:field_id"

// IcebergTypeKey is the Arrow field metadata that tells what the Arrow type does not: "uuid" on 16 fixed bytes.
const IcebergTypeKey = "iceberg.type"

// FieldID is the field id of an Arrow field, or 0.
func FieldID(f arrow.Field) int {
	v, ok := f.Metadata.GetValue(FieldIDKey)
	if !ok {
		return 0
	}
	id, err := strconv.ParseInt(v, 10, 32) // as Parquet has them
	if err != nil || id < 0 {
		return 0
	}
	return int(id)
}

// overLimit is what the memory limit panics with; see limited.
type overLimit struct{ wanted, limit int64 }

// guard turns a panic of the Parquet library into an error of the kind.
func guard(kind errs.Kind, op string, err *error) {
	switch p := recover().(type) {
	case nil:
	case overLimit:
		*err = errs.With(errs.Newf(errs.Exhausted, op, "the rows need more than the %d MiB that one batch may take", p.limit>>20),
			errs.Hint("read fewer rows or columns at a time"))
	default:
		if fmt.Sprint(p) == "invalid logical type" { // newer than the library, so nothing is broken
			kind = errs.Unsupported
		}
		*err = errs.Newf(kind, op, "the Parquet library failed: %v", p)
	}
}

// wrap gives an error of the Parquet library its kind, unless it already is one of ours.
func wrap(kind errs.Kind, op string, err error) error {
	if err == nil {
		return nil
	}
	var e *errs.Error
	if errors.As(err, &e) {
		return err
	}
	return errs.Wrap(kind, op, err)
}

func invalid(op, column, format string, args ...any) error {
	return errs.New(errs.Invalid, op, fmt.Sprintf(format, args...), errs.On(column))
}
