package engine

/*
#include <stdlib.h>
#include "engine.h"
*/
import "C"

import (
	"fmt"
	"sync"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/cdata"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/overlakedb/overlake/internal/errs"
)

// chunkRows is the number of rows in a full DuckDB vector.
const chunkRows = 2048

// feed is a record reader that SQL reads once.
type feed struct {
	db     *DB
	reader array.RecordReader
	conv   C.duckdb_arrow_converted_schema

	mu   sync.Mutex
	rec  arrow.RecordBatch // what is left of the current batch
	done bool
}

var feeds = struct {
	sync.Mutex
	last int64
	byID map[int64]*feed
}{byID: map[int64]*feed{}}

// NewFeed makes the rows of a reader readable in SQL, once, as a table expression to put into FROM. The feed retains the
// reader; release must be called when the query is closed.
func (db *DB) NewFeed(r array.RecordReader) (from string, release func(), err error) {
	f := &feed{db: db, reader: r}
	cs := (*cdata.CArrowSchema)(C.calloc(1, C.size_t(unsafe.Sizeof(cdata.CArrowSchema{}))))
	defer C.free(unsafe.Pointer(cs))
	cdata.ExportArrowSchema(r.Schema(), cs)
	defer cdata.ReleaseCArrowSchema(cs)
	db.control.Lock()
	e := C.duckdb_schema_from_arrow(db.conns[0], (*C.struct_ArrowSchema)(unsafe.Pointer(cs)), &f.conv)
	db.control.Unlock()
	if err := takeError(e); err != nil {
		return "", nil, errs.Wrap(errs.Unsupported, "engine.feed", err)
	}
	r.Retain()
	feeds.Lock()
	feeds.last++
	id := feeds.last
	feeds.byID[id] = f
	feeds.Unlock()
	return fmt.Sprintf("overlake_feed(%d)", id), func() {
		feeds.Lock()
		_, there := feeds.byID[id]
		delete(feeds.byID, id)
		feeds.Unlock()
		if !there {
			return
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.rec != nil {
			f.rec.Release()
		}
		f.done = true
		f.reader.Release()
		C.duckdb_destroy_arrow_converted_schema(&f.conv)
	}, nil
}

func takeError(e C.duckdb_error_data) error {
	if e == nil {
		return nil
	}
	defer C.duckdb_destroy_error_data(&e)
	if !C.duckdb_error_data_has_error(e) {
		return nil
	}
	return fmt.Errorf("%s", C.GoString(C.duckdb_error_data_message(e)))
}

func findFeed(id C.int64_t) (*feed, error) {
	feeds.Lock()
	defer feeds.Unlock()
	if f := feeds.byID[int64(id)]; f != nil {
		return f, nil
	}
	return nil, errs.New(errs.NotFound, "engine.feed", "there is no such feed")
}

//export ovFeedBind
func ovFeedBind(id C.int64_t, info C.duckdb_bind_info) (failed *C.char) {
	defer recovered(&failed)
	f, err := findFeed(id)
	if err != nil {
		return C.CString(err.Error())
	}
	// An empty chunk of the schema tells the types.
	b := array.NewRecordBuilder(memory.DefaultAllocator, f.reader.Schema())
	defer b.Release()
	empty := b.NewRecordBatch()
	defer empty.Release()
	chunk, err := f.chunk(empty)
	if err != nil {
		return C.CString(err.Error())
	}
	defer C.duckdb_destroy_data_chunk(&chunk)
	for i, field := range f.reader.Schema().Fields() {
		t := C.duckdb_vector_get_column_type(C.duckdb_data_chunk_get_vector(chunk, C.idx_t(i)))
		name := C.CString(field.Name)
		C.duckdb_bind_add_result_column(info, name, t)
		C.free(unsafe.Pointer(name))
		C.duckdb_destroy_logical_type(&t)
	}
	return nil
}

// chunk gives a batch of at most chunkRows rows to DuckDB.
func (f *feed) chunk(rec arrow.RecordBatch) (C.duckdb_data_chunk, error) {
	ca := (*cdata.CArrowArray)(C.calloc(1, C.size_t(unsafe.Sizeof(cdata.CArrowArray{}))))
	defer C.free(unsafe.Pointer(ca))
	cdata.ExportArrowRecordBatch(rec, ca, nil)
	var chunk C.duckdb_data_chunk
	e := C.duckdb_data_chunk_from_arrow(f.db.conns[0], (*C.struct_ArrowArray)(unsafe.Pointer(ca)), f.conv, &chunk)
	return chunk, takeError(e)
}

//export ovFeedNext
func ovFeedNext(id C.int64_t, out *C.duckdb_data_chunk) (failed *C.char) {
	defer recovered(&failed)
	f, err := findFeed(id)
	if err != nil {
		return C.CString(err.Error())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.rec == nil || f.rec.NumRows() == 0 {
		if f.rec != nil {
			f.rec.Release()
			f.rec = nil
		}
		if f.done || !f.reader.Next() {
			f.done = true
			if err := f.reader.Err(); err != nil {
				return C.CString(err.Error())
			}
			return nil
		}
		f.rec = f.reader.RecordBatch()
		f.rec.Retain()
	}
	n := min(f.rec.NumRows(), chunkRows)
	part := f.rec.NewSlice(0, n)
	defer part.Release()
	rest := f.rec.NewSlice(n, f.rec.NumRows())
	f.rec.Release()
	f.rec = rest
	if *out, err = f.chunk(part); err != nil {
		return C.CString(err.Error())
	}
	return nil
}
