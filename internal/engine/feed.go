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

// feed is a source of record batches that SQL may read any number of times.
type feed struct {
	db     *DB
	schema *arrow.Schema
	open   func() (array.RecordReader, error)
	conv   C.duckdb_arrow_converted_schema
	refs   int // the registration and every cursor
}

// cursor is one reading of a feed.
type cursor struct {
	f      *feed
	reader array.RecordReader

	mu   sync.Mutex
	rec  arrow.RecordBatch // what is left of the current batch
	done bool
}

var feeds = struct {
	sync.Mutex
	last    int64
	byID    map[int64]*feed
	cursors map[int64]*cursor
}{byID: map[int64]*feed{}, cursors: map[int64]*cursor{}}

// drop gives a reference back; the lock of feeds is held.
func (f *feed) drop() {
	if f.refs--; f.refs == 0 {
		C.duckdb_destroy_arrow_converted_schema(&f.conv)
	}
}

// NewFeed makes rows readable in SQL as a table expression to put into FROM. open starts a reading; it is called once for
// every place and execution. release must be called when the query is closed.
func (db *DB) NewFeed(schema *arrow.Schema, open func() (array.RecordReader, error)) (from string, release func(), err error) {
	f := &feed{db: db, schema: schema, open: open, refs: 1}
	cs := (*cdata.CArrowSchema)(C.calloc(1, C.size_t(unsafe.Sizeof(cdata.CArrowSchema{}))))
	defer C.free(unsafe.Pointer(cs))
	cdata.ExportArrowSchema(schema, cs)
	defer cdata.ReleaseCArrowSchema(cs)
	db.control.Lock()
	e := C.duckdb_schema_from_arrow(db.conns[0], (*C.struct_ArrowSchema)(unsafe.Pointer(cs)), &f.conv)
	db.control.Unlock()
	if err := takeError(e); err != nil {
		return "", nil, errs.Wrap(errs.Unsupported, "engine.feed", err)
	}
	feeds.Lock()
	defer feeds.Unlock()
	feeds.last++
	id := feeds.last
	feeds.byID[id] = f
	return fmt.Sprintf("overlake_feed(%d)", id), func() {
		feeds.Lock()
		defer feeds.Unlock()
		if feeds.byID[id] != nil {
			delete(feeds.byID, id)
			f.drop()
		}
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

// findFeed finds a feed and takes a reference.
func findFeed(id C.int64_t) (*feed, error) {
	feeds.Lock()
	defer feeds.Unlock()
	if f := feeds.byID[int64(id)]; f != nil {
		f.refs++
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
	defer func() {
		feeds.Lock()
		defer feeds.Unlock()
		f.drop()
	}()
	// An empty chunk of the schema tells the types.
	b := array.NewRecordBuilder(memory.DefaultAllocator, f.schema)
	defer b.Release()
	empty := b.NewRecordBatch()
	defer empty.Release()
	chunk, err := f.chunk(empty)
	if err != nil {
		return C.CString(err.Error())
	}
	defer C.duckdb_destroy_data_chunk(&chunk)
	for i, field := range f.schema.Fields() {
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

//export ovFeedOpen
func ovFeedOpen(id C.int64_t, out *C.int64_t) (failed *C.char) {
	defer recovered(&failed)
	f, err := findFeed(id)
	if err != nil {
		return C.CString(err.Error())
	}
	r, err := f.open()
	feeds.Lock()
	defer feeds.Unlock()
	if err != nil {
		f.drop()
		return C.CString(err.Error())
	}
	feeds.last++
	feeds.cursors[feeds.last] = &cursor{f: f, reader: r}
	*out = C.int64_t(feeds.last)
	return nil
}

//export ovFeedClose
func ovFeedClose(id C.int64_t) {
	feeds.Lock()
	c := feeds.cursors[int64(id)]
	delete(feeds.cursors, int64(id))
	if c != nil {
		c.f.drop()
	}
	feeds.Unlock()
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rec != nil {
		c.rec.Release()
	}
	c.reader.Release()
}

//export ovFeedNext
func ovFeedNext(id C.int64_t, out *C.duckdb_data_chunk) (failed *C.char) {
	defer recovered(&failed)
	feeds.Lock()
	c := feeds.cursors[int64(id)]
	feeds.Unlock()
	if c == nil {
		return C.CString("there is no such feed")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.rec == nil || c.rec.NumRows() == 0 {
		if c.rec != nil {
			c.rec.Release()
			c.rec = nil
		}
		if c.done || !c.reader.Next() {
			c.done = true
			if err := c.reader.Err(); err != nil {
				return C.CString(err.Error())
			}
			return nil
		}
		c.rec = c.reader.RecordBatch()
		c.rec.Retain()
	}
	n := min(c.rec.NumRows(), chunkRows)
	part := c.rec.NewSlice(0, n)
	defer part.Release()
	rest := c.rec.NewSlice(n, c.rec.NumRows())
	c.rec.Release()
	c.rec = rest
	chunk, err := c.f.chunk(part)
	if err != nil {
		return C.CString(err.Error())
	}
	*out = chunk
	return nil
}
