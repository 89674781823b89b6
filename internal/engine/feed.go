package engine

/*
#include <stdlib.h>
#include "engine.h"
*/
import "C"

import (
	"fmt"
	"runtime/cgo"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/overlakedb/overlake/internal/errs"
)

// chunkRows is the number of rows in a full DuckDB vector.
const chunkRows = 2048

// A feed is a source of record batches that SQL may read any number of times.
type feed struct {
	db     *DB
	schema *arrow.Schema
	open   func(columns []int) (array.RecordReader, error)
	fills  []fill
	rows   int64
}

// A cursor is one reading of a feed, shared by the threads of a query.
type cursor struct {
	fills []fill // of the reader's columns
	to    []slot

	mu     sync.Mutex
	reader array.RecordReader
	done   bool
}

// A slot is a vector of the chunk and the reader's column that goes there.
type slot struct{ vector, column int }

// A part is what one thread has left of its batch.
type part struct {
	rec arrow.RecordBatch
	row int
}

var feeds = struct {
	sync.Mutex
	last int64
	byID map[int64]*feed
}{byID: map[int64]*feed{}}

// feedHandles counts the handles that the engine holds.
var feedHandles atomic.Int64

// NewFeed makes rows readable in SQL as a table expression to put into FROM. open starts a reading of all columns; it is
// called once for every place and execution. release must be called when the query is closed; a query that runs goes on
// reading. Rows come in the reader's order wherever a query without ORDER BY keeps the order of its table.
//
// The reader is called by the engine's threads, one at a time. A reader that waits must end with the query's context:
// the engine cannot interrupt it. It must not be made of a coroutine (iter.Pull, array.ReaderFromIter): which thread resumes
// one is not free in Go, and the program ends.
func (db *DB) NewFeed(schema *arrow.Schema, open func() (array.RecordReader, error)) (from string, release func(), err error) {
	all := func(columns []int) (array.RecordReader, error) {
		r, err := open()
		if err != nil {
			return nil, err
		}
		return &projected{RecordReader: r, columns: columns}, nil
	}
	return db.NewColumnFeed(schema, -1, all)
}

// NewColumnFeed is NewFeed for readers that can leave columns out: open is told which of the schema's columns the query
// uses, ascending, and its batches have exactly these, perhaps none. rows is how many rows there are at most, which helps
// the engine to order joins; -1 says nothing.
func (db *DB) NewColumnFeed(schema *arrow.Schema, rows int64, open func(columns []int) (array.RecordReader, error)) (from string, release func(), err error) {
	f := &feed{db: db, schema: schema, open: open, fills: make([]fill, schema.NumFields()), rows: rows}
	for i, field := range schema.Fields() {
		if f.fills[i], err = newFill(field.Type); err != nil {
			return "", nil, errs.With(err, errs.On(field.Name))
		}
	}
	feeds.Lock()
	defer feeds.Unlock()
	feeds.last++
	id := feeds.last
	feeds.byID[id] = f
	return fmt.Sprintf("overlake_feed(%d)", id), func() {
		feeds.Lock()
		defer feeds.Unlock()
		delete(feeds.byID, id)
	}, nil
}

// NewBatchFeed is NewFeed for batches at hand. They are retained until release.
func (db *DB) NewBatchFeed(schema *arrow.Schema, batches []arrow.RecordBatch) (from string, release func(), err error) {
	for _, b := range batches {
		if !b.Schema().Equal(schema) {
			return "", nil, errs.New(errs.Invalid, "engine.feed", "a batch has another schema than the feed")
		}
		b.Retain()
	}
	let := func() {
		for _, b := range batches {
			b.Release()
		}
	}
	from, forget, err := db.NewFeed(schema, func() (array.RecordReader, error) { return array.NewRecordReader(schema, batches) })
	if err != nil {
		let()
		return "", nil, err
	}
	var once sync.Once
	return from, func() {
		once.Do(func() {
			forget()
			let()
		})
	}, nil
}

// projected takes some of a reader's columns.
type projected struct {
	array.RecordReader
	columns []int
	rec     arrow.RecordBatch
}

func (p *projected) drop() {
	if p.rec != nil {
		p.rec.Release()
		p.rec = nil
	}
}

func (p *projected) Next() bool {
	p.drop()
	return p.RecordReader.Next()
}

func (p *projected) Release() {
	p.drop()
	p.RecordReader.Release()
}

func (p *projected) RecordBatch() arrow.RecordBatch {
	p.drop()
	rec := p.RecordReader.RecordBatch()
	fields, cols := make([]arrow.Field, len(p.columns)), make([]arrow.Array, len(p.columns))
	for i, c := range p.columns {
		fields[i], cols[i] = rec.Schema().Field(c), rec.Column(c)
	}
	p.rec = array.NewRecordBatch(arrow.NewSchema(fields, nil), cols, rec.NumRows())
	return p.rec
}

//export ovFeedBind
func ovFeedBind(id C.int64_t, info C.duckdb_bind_info, handle *C.uintptr_t) (failed *C.char) {
	defer recovered(&failed)
	feeds.Lock()
	f := feeds.byID[int64(id)]
	feeds.Unlock()
	if f == nil {
		return failure(errs.New(errs.NotFound, "engine.feed", "there is no such feed"))
	}
	for i, field := range f.schema.Fields() {
		t := f.fills[i].logicalType()
		name := C.CString(field.Name)
		C.duckdb_bind_add_result_column(info, name, t)
		C.free(unsafe.Pointer(name))
		C.duckdb_destroy_logical_type(&t)
	}
	if f.rows >= 0 {
		C.duckdb_bind_set_cardinality(info, C.idx_t(f.rows), false)
	}
	*handle = newHandle(f)
	return nil
}

//export ovFeedOpen
func ovFeedOpen(handle C.uintptr_t, info C.duckdb_init_info, out *C.uintptr_t, threads *C.idx_t) (failed *C.char) {
	defer recovered(&failed)
	f := cgo.Handle(handle).Value().(*feed)
	c := &cursor{}
	// The projection may come in any order and hold a row id, which stands for no column: count(*) asks for nothing else.
	wanted := make([]bool, len(f.fills))
	asked := make([]int, C.duckdb_init_get_column_count(info))
	for at := range asked {
		asked[at] = -1
		if i := C.duckdb_init_get_column_index(info, C.idx_t(at)); i < C.idx_t(len(wanted)) {
			asked[at], wanted[i] = int(i), true
		}
	}
	columns, position := []int{}, make([]int, len(wanted))
	for i, w := range wanted {
		if w {
			position[i] = len(columns)
			columns, c.fills = append(columns, i), append(c.fills, f.fills[i])
		}
	}
	for at, i := range asked {
		if i >= 0 {
			c.to = append(c.to, slot{vector: at, column: position[i]})
		}
	}
	r, err := f.open(columns)
	if err != nil {
		return failure(err)
	}
	c.reader = r
	*out = newHandle(c)
	*threads = C.idx_t(f.db.cfg.Threads)
	return nil
}

//export ovFeedReader
func ovFeedReader() C.uintptr_t { return newHandle(&part{}) }

//export ovFeedDrop
func ovFeedDrop(handle C.uintptr_t) {
	h := cgo.Handle(handle)
	switch v := h.Value().(type) {
	case *cursor:
		v.reader.Release()
	case *part:
		v.drop()
	}
	h.Delete()
	feedHandles.Add(-1)
}

func newHandle(v any) C.uintptr_t {
	feedHandles.Add(1)
	return C.uintptr_t(cgo.NewHandle(v))
}

func (p *part) drop() {
	if p.rec != nil {
		p.rec.Release()
		p.rec = nil
	}
}

//export ovFeedNext
func ovFeedNext(cursorHandle, partHandle C.uintptr_t, out C.duckdb_data_chunk, rows *C.idx_t) (failed *C.char) {
	defer recovered(&failed)
	c, p := cgo.Handle(cursorHandle).Value().(*cursor), cgo.Handle(partHandle).Value().(*part)
	for p.rec == nil || int64(p.row) == p.rec.NumRows() {
		p.drop()
		if err := c.next(p); err != nil {
			return failure(err)
		}
		if p.rec == nil {
			return nil
		}
	}
	n := min(int(p.rec.NumRows())-p.row, chunkRows)
	for _, s := range c.to {
		if err := c.fills[s.column].fill(C.duckdb_data_chunk_get_vector(out, C.idx_t(s.vector)), 0, p.rec.Column(s.column), p.row, n); err != nil {
			return failure(err)
		}
	}
	p.row += n
	*rows = C.idx_t(n)
	return nil
}

// next takes the next batch; none at the end.
func (c *cursor) next(p *part) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done || !c.reader.Next() {
		c.done = true
		return c.reader.Err()
	}
	rec := c.reader.RecordBatch()
	if int(rec.NumCols()) != len(c.fills) {
		return errs.Newf(errs.Internal, "engine.feed", "a batch has %d columns, not %d", rec.NumCols(), len(c.fills))
	}
	for i, f := range c.fills {
		if got := rec.Column(i).DataType(); !f.accepts(got) {
			return errs.Newf(errs.Internal, "engine.feed", "column %s of a batch is %s, not %s", rec.ColumnName(i), got, f.typ)
		}
	}
	rec.Retain()
	p.rec, p.row = rec, 0
	return nil
}

// FeedHandles is the number of readings that the engine holds, for tests of what is left behind.
func FeedHandles() int64 { return feedHandles.Load() }
