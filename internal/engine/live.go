package engine

/*
#include "engine.h"
*/
import "C"

import (
	"sync/atomic"
	"unsafe"

	"github.com/overlakedb/overlake/internal/errs"
)

// LiveFile tells which rows of a file take part in a scan. Bit p%64 of word p/64 stands for row p.
type LiveFile struct {
	Rows    int64
	Deleted []uint64 // set bits are deleted rows; nil: none
	Allowed []uint64 // clear bits are rows an index ruled out; nil: none
}

// NewLive registers the rows of a list of files, in the order of the list given to read_parquet, for the predicate
// overlake_live(id, file_index, file_row_number). The words are copied. release must be called when the query is closed.
func (db *DB) NewLive(files []LiveFile) (id int64, release func(), err error) {
	full := errs.New(errs.Exhausted, "engine.live", "out of memory for the deleted rows of a scan")
	h := C.ov_live_new(C.idx_t(len(files)))
	if h == 0 {
		return 0, nil, full
	}
	for i, f := range files {
		n := (f.Rows + 63) / 64
		if f.Deleted != nil && int64(len(f.Deleted)) < n || f.Allowed != nil && int64(len(f.Allowed)) < n {
			C.ov_live_release(h)
			return 0, nil, errs.Newf(errs.Internal, "engine.live", "file %d has %d rows and fewer bits", i, f.Rows)
		}
		if !C.ov_live_set(h, C.idx_t(i), C.int64_t(f.Rows), wordsOf(f.Deleted), wordsOf(f.Allowed)) {
			C.ov_live_release(h)
			return 0, nil, full
		}
	}
	var once atomic.Bool
	return int64(h), func() {
		if once.CompareAndSwap(false, true) {
			C.ov_live_release(h)
		}
	}, nil
}

// LiveBytes is the memory that registered scans hold.
func LiveBytes() int64 { return int64(C.ov_live_bytes()) }

func wordsOf(w []uint64) *C.uint64_t {
	if w == nil {
		return nil
	}
	if len(w) == 0 {
		w = []uint64{0}
	}
	return (*C.uint64_t)(unsafe.Pointer(unsafe.SliceData(w)))
}
