package engine

/*
#include <stdlib.h>
#include "engine.h"
*/
import "C"

import (
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/overlakedb/overlake/internal/errs"
)

var lastFile atomic.Int64

// realPaths maps virtual paths to real ones, for error messages.
var realPaths sync.Map

var virtualPath = regexp.MustCompile(`/\.overlake-files/[0-9a-f]{32}/[0-9a-z]+(\.[a-z0-9]+)?`)

// nameFiles puts the real paths into a message of DuckDB.
func nameFiles(message string) string {
	return virtualPath.ReplaceAllStringFunc(message, func(v string) string {
		if real, ok := realPaths.Load(v); ok {
			return real.(string)
		}
		return "a released file"
	})
}

// AddFile makes a file of this machine readable for queries and returns the path to use in SQL. The path keeps the
// extension and holds no character that globbing or quoting knows. release forgets it; a query that opened the file
// before goes on reading.
func (db *DB) AddFile(localPath string) (path string, release func(), err error) {
	return db.addFile(localPath, false)
}

// AddOutput is AddFile for the file that RunCopy writes.
func (db *DB) AddOutput(localPath string) (path string, release func(), err error) {
	return db.addFile(localPath, true)
}

func (db *DB) addFile(localPath string, writable bool) (string, func(), error) {
	ext := filepath.Ext(localPath)
	for _, c := range ext {
		if c != '.' && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			ext = ""
			break
		}
	}
	path := db.prefix + strconv.FormatInt(lastFile.Add(1), 36) + ext
	virtual, real := C.CString(path), C.CString(localPath)
	defer C.free(unsafe.Pointer(real))
	if !C.ov_file_add(virtual, real, C.bool(writable)) {
		C.free(unsafe.Pointer(virtual))
		return "", nil, errs.New(errs.Exhausted, "engine.file", "out of memory", errs.On(localPath))
	}
	realPaths.Store(path, localPath)
	var once atomic.Bool
	return path, func() {
		if once.CompareAndSwap(false, true) {
			realPaths.Delete(path)
			C.ov_file_remove(virtual)
			C.free(unsafe.Pointer(virtual))
		}
	}, nil
}

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
