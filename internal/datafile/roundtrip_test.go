package datafile_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/overlakedb/overlake/internal/datafile"
	"github.com/overlakedb/overlake/internal/errs"
)

// variations of the writer that must not change what is read.
var variations = map[string]datafile.WriterOptions{
	"defaults":     {},
	"small groups": {RowGroupRows: 97},
	"small pages":  {RowGroupRows: 400, PageBytes: 300},
	"few bytes":    {RowGroupBytes: 20_000, PageBytes: 1000},
	"split":        {Vectors: datafile.VectorsSplit, PageBytes: 500},
	"snappy":       {Codec: datafile.Snappy, PageBytes: 4000},
	"gzip":         {Codec: datafile.Gzip},
	"uncompressed": {Codec: datafile.Uncompressed, PageBytes: 2000},
}

// TestEveryTypeRoundTrips writes and reads random values of all types, nested ones included, in all ways of writing; then
// random fetches have to agree with what was written.
func TestEveryTypeRoundTrips(t *testing.T) {
	seed := uint64(11)
	for name, opts := range variations {
		seed++
		t.Run(name, func(t *testing.T) {
			mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
			defer mem.AssertSize(t, 0)
			rng := rand.New(rand.NewPCG(seed, 1))
			whole := randomBatch(mem, everySchema(rng), 1000, rng)
			defer whole.Release()
			opts.Allocator = mem
			data, _ := writeBatch(t, whole, opts, rng)
			f, err := datafile.OpenLimited(bytes.NewReader(data), int64(len(data)), datafile.Limits{Allocator: mem})
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if !f.Schema().Equal(whole.Schema()) {
				t.Errorf("seed %d: the schema is\n%s\nand was\n%s", seed, f.Schema(), whole.Schema())
			}
			r, err := f.Read(t.Context(), nil, 1+rng.Int64N(400))
			if err != nil {
				t.Fatal(err)
			}
			at := int64(0)
			for r.Next() {
				rec := r.RecordBatch()
				for i := range rec.NumRows() {
					if diff := sameRows(rec, i, whole, at+i); diff != "" {
						t.Fatalf("seed %d row %d: %s", seed, at+i, diff)
					}
				}
				at += rec.NumRows()
			}
			if r.Err() != nil || at != whole.NumRows() {
				t.Errorf("seed %d: %d rows, then %v", seed, at, r.Err())
			}
			r.Release()
			for range 4 {
				pos := make([]int64, rng.IntN(30))
				for i := range pos {
					pos[i] = rng.Int64N(whole.NumRows())
				}
				rec, err := f.Fetch(t.Context(), pos, nil)
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				if rec.NumRows() != int64(len(pos)) {
					t.Fatalf("seed %d: %d rows for %d positions", seed, rec.NumRows(), len(pos))
				}
				for i, p := range pos {
					if diff := sameRows(rec, int64(i), whole, p); diff != "" {
						t.Errorf("seed %d position %d: %s", seed, p, diff)
					}
				}
				rec.Release()
			}
		})
	}
}

// TestColumnsComeInTheOrderAskedFor also asks for none, and for a column that is not there.
func TestColumnsComeInTheOrderAskedFor(t *testing.T) {
	data, whole := write(t, 1, 3000, datafile.WriterOptions{RowGroupRows: 800})
	f := openFile(t, data)
	for _, names := range [][]string{{"price", "id"}, {"emb"}, {}} {
		r, err := f.Read(t.Context(), names, 0)
		if err != nil {
			t.Fatal(err)
		}
		rows := int64(0)
		for r.Next() {
			rec := r.RecordBatch()
			rows += rec.NumRows()
			for i, n := range names {
				if rec.ColumnName(i) != n {
					t.Errorf("column %d of %q is %s", i, names, rec.ColumnName(i))
				}
			}
			if int(rec.NumCols()) != len(names) {
				t.Errorf("%d columns for %q", rec.NumCols(), names)
			}
		}
		if rows != whole.NumRows() || r.Err() != nil {
			t.Errorf("%q: %d rows, %v", names, rows, r.Err())
		}
		r.Release()
		rec, err := f.Fetch(t.Context(), []int64{2999, 0}, names)
		if err != nil || rec.NumRows() != 2 || int(rec.NumCols()) != len(names) {
			t.Errorf("%q: %v, %v", names, rec, err)
		}
	}
	if _, err := f.Read(t.Context(), []string{"id", "none"}, 0); !errs.Is(err, errs.NotFound) {
		t.Errorf("reading a column that is not there gave %v", err)
	}
	if _, err := f.Fetch(t.Context(), []int64{1}, []string{"none"}); !errs.Is(err, errs.NotFound) {
		t.Errorf("fetching a column that is not there gave %v", err)
	}
}

func TestAFileWithoutRows(t *testing.T) {
	data, _ := write(t, 1, 0, datafile.WriterOptions{})
	f := openFile(t, data)
	r, err := f.Read(t.Context(), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	if r.Next() || r.Err() != nil || f.Rows() != 0 || len(f.RowGroups()) != 0 {
		t.Errorf("%d rows, %v", f.Rows(), r.Err())
	}
	rec, err := f.Fetch(t.Context(), nil, nil)
	if err != nil || rec.NumRows() != 0 || int(rec.NumCols()) != schema.NumFields() {
		t.Errorf("%v, %v", rec, err)
	}
	if _, err := f.Fetch(t.Context(), []int64{0}, nil); !errs.Is(err, errs.Invalid) {
		t.Errorf("the first row of no rows gave %v", err)
	}
}

// store counts and spoils reads.
type store struct {
	io.ReaderAt
	reads atomic.Int64
	bytes atomic.Int64
	fail  error
	after int64 // reads that succeed before fail
	then  func()
}

func (s *store) ReadAt(p []byte, off int64) (int, error) {
	n := s.reads.Add(1)
	s.bytes.Add(int64(len(p)))
	if s.fail != nil && n > s.after {
		return 0, s.fail
	}
	if s.then != nil {
		s.then()
	}
	return s.ReaderAt.ReadAt(p, off)
}

// TestFetchReadsOnlyThePagesItNeeds bounds the bytes and the requests of a fetch; the requests of one round are parallel, so
// few of them means few rounds.
func TestFetchReadsOnlyThePagesItNeeds(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	c := &ids{}
	sc := arrow.NewSchema([]arrow.Field{c.field("id", arrow.PrimitiveTypes.Int64, false),
		c.field("vector", arrow.ListOfField(arrow.Field{Name: "element", Type: arrow.PrimitiveTypes.Float32}), true),
		c.field("map", arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64), true)}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, sc)
	const rows, dims = 20_000, 64
	for i := range rows {
		b.Field(0).(*array.Int64Builder).Append(int64(i))
		l := b.Field(1).(*array.ListBuilder)
		l.Append(true)
		for range dims {
			l.ValueBuilder().(*array.Float32Builder).Append(rng.Float32())
		}
		some(b.Field(2), true, rng)
	}
	data, _ := writeBatch(t, b.NewRecordBatch(), datafile.WriterOptions{}, rng)
	s := &store{ReaderAt: bytes.NewReader(data)}
	f, err := datafile.Open(s, int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	if n := s.reads.Load(); n != 1 { // it is far away, and its footer is shorter than what is read ahead
		t.Errorf("opening took %d reads", n)
	}
	for n, most := range map[int]struct{ reads, bytes int64 }{1: {7, 400 << 10}, 8: {24, 1000 << 10}} {
		pos := make([]int64, n)
		for i := range pos {
			pos[i] = rng.Int64N(rows)
		}
		s.reads.Store(0)
		s.bytes.Store(0)
		rec, err := f.Fetch(t.Context(), pos, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range pos {
			if rec.Column(0).(*array.Int64).Value(i) != p {
				t.Errorf("position %d gave row %s", p, rec.Column(0).ValueStr(i))
			}
		}
		t.Logf("%d rows: %d reads of %d bytes; the file has %d", n, s.reads.Load(), s.bytes.Load(), len(data))
		if s.reads.Load() > most.reads || s.bytes.Load() > most.bytes {
			t.Errorf("%d rows took %d reads of %d bytes; the file has %d", n, s.reads.Load(), s.bytes.Load(), len(data))
		}
	}
}

// nearStore is a store that says that it is near.
type nearStore struct{ *store }

func (nearStore) Near() bool { return true }

// TestNearFilesAreReadInSmallPieces: a fetch of many rows reads a distant file nearly whole, in few requests, and of a near one
// little more than its pages.
func TestNearFilesAreReadInSmallPieces(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 8))
	c := &ids{}
	sc := arrow.NewSchema([]arrow.Field{c.field("id", arrow.PrimitiveTypes.Int64, false), c.field("x", arrow.PrimitiveTypes.Float64, true),
		c.field("y", arrow.PrimitiveTypes.Float64, true)}, nil)
	whole := randomBatch(memory.DefaultAllocator, sc, 60_000, rng)
	data, _ := writeBatch(t, whole, datafile.WriterOptions{Codec: datafile.Uncompressed, PageBytes: 4096}, rng)
	pos := make([]int64, 40)
	for i := range pos {
		pos[i] = rng.Int64N(60_000)
	}
	fetch := func(s *store, r io.ReaderAt) (reads, size int64) {
		f, err := datafile.Open(r, int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		s.reads.Store(0)
		s.bytes.Store(0)
		rec, err := f.Fetch(t.Context(), pos, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range pos {
			if diff := sameRows(rec, int64(i), whole, p); diff != "" {
				t.Errorf("position %d: %s", p, diff)
			}
		}
		return s.reads.Load(), s.bytes.Load()
	}
	far := &store{ReaderAt: bytes.NewReader(data)}
	farReads, farBytes := fetch(far, far)
	near := &store{ReaderAt: bytes.NewReader(data)}
	nearReads, nearBytes := fetch(near, nearStore{near})
	t.Logf("of %d bytes: %d far in %d reads, %d near in %d", len(data), farBytes, farReads, nearBytes, nearReads)
	if farReads > 10 || nearBytes > int64(len(data))*6/10 || nearBytes >= farBytes || nearReads <= farReads {
		t.Errorf("of %d bytes: %d far in %d reads, %d near in %d", len(data), farBytes, farReads, nearBytes, nearReads)
	}
}

// TestFailuresOfTheStoreKeepTheirKind: a store that does not answer is no corrupt file.
func TestFailuresOfTheStoreKeepTheirKind(t *testing.T) {
	data, _ := write(t, 3, 2000, datafile.WriterOptions{RowGroupRows: 500, PageBytes: 1000})
	for _, fail := range []error{errs.New(errs.Unavailable, "store.read", "503"), errs.New(errs.Denied, "store.read", "no"), errors.New("plain")} {
		want := errs.KindOf(fail)
		if want == errs.Internal {
			want = errs.Unavailable
		}
		for after := int64(0); after < 12; after++ {
			s := &store{ReaderAt: bytes.NewReader(data), fail: fail, after: after}
			f, err := datafile.Open(s, int64(len(data)))
			if err == nil {
				_, err = f.Fetch(t.Context(), []int64{1, 900, 1999}, nil)
			}
			if err != nil && errs.KindOf(err) != want {
				t.Errorf("after %d reads: %v is %s", after, err, errs.KindOf(err))
			}
			s.reads.Store(2)
			var r array.RecordReader
			if f == nil {
				continue
			}
			if r, err = f.Read(t.Context(), nil, 300); err == nil {
				for r.Next() {
				}
				err = r.Err()
			}
			if err != nil && errs.KindOf(err) != want {
				t.Errorf("after %d reads: %v is %s", after, err, errs.KindOf(err))
			}
			if err == nil && after < 3 {
				t.Errorf("after %d reads nothing failed", after)
			}
		}
	}
}

func TestCancel(t *testing.T) {
	data, _ := write(t, 3, 2000, datafile.WriterOptions{RowGroupRows: 500, PageBytes: 1000})
	f := openFile(t, data)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := f.Read(ctx, nil, 300)
	if err != nil || !r.Next() {
		t.Fatal(err)
	}
	cancel()
	for r.Next() {
	}
	if !errs.Is(r.Err(), errs.Canceled) {
		t.Errorf("a cancelled reader gave %v", r.Err())
	}
	if _, err := f.Fetch(ctx, []int64{1}, nil); !errs.Is(err, errs.Canceled) {
		t.Errorf("a cancelled fetch gave %v", err)
	}
	// In the middle of a fetch.
	ctx, cancel = context.WithCancel(t.Context())
	s := &store{ReaderAt: bytes.NewReader(data)}
	if f, err = datafile.Open(s, int64(len(data))); err != nil {
		t.Fatal(err)
	}
	s.then = cancel
	if _, err := f.Fetch(ctx, []int64{1, 1500}, nil); !errs.Is(err, errs.Canceled) {
		t.Errorf("a fetch cancelled on the way gave %v", err)
	}
}

// TestLimits: a batch that would not fit is Exhausted, and what the caller keeps of earlier batches does not count.
func TestLimits(t *testing.T) {
	data, _ := write(t, 3, 20_000, datafile.WriterOptions{})
	f, err := datafile.OpenLimited(bytes.NewReader(data), int64(len(data)), datafile.Limits{BatchBytes: 100 << 10})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := f.Read(t.Context(), nil, 20_000); err == nil {
		for r.Next() {
		}
		if !errs.Is(r.Err(), errs.Exhausted) || errs.HintOf(r.Err()) == "" {
			t.Errorf("a batch over the limit gave %v", r.Err())
		}
	} else if !errs.Is(err, errs.Exhausted) {
		t.Errorf("a batch over the limit gave %v", err)
	}
	all := make([]int64, 20_000)
	for i := range all {
		all[i] = int64(i)
	}
	if _, err := f.Fetch(t.Context(), all, nil); !errs.Is(err, errs.Exhausted) || errs.HintOf(err) == "" {
		t.Errorf("rows over the limit gave %v", err)
	}
	if f, err = datafile.OpenLimited(bytes.NewReader(data), int64(len(data)), datafile.Limits{BatchBytes: 2 << 20}); err != nil {
		t.Fatal(err)
	}
	r, err := f.Read(t.Context(), nil, 1000)
	if err != nil {
		t.Fatal(err)
	}
	var kept []arrow.RecordBatch
	for r.Next() {
		rec := r.RecordBatch()
		rec.Retain()
		kept = append(kept, rec)
	}
	if r.Err() != nil || len(kept) != 20 {
		t.Errorf("%d batches, then %v", len(kept), r.Err())
	}
}

// TestManyReaders uses one file from many goroutines; the race detector makes it a test of more than the answers.
func TestManyReaders(t *testing.T) {
	data, whole := write(t, 8, 2000, datafile.WriterOptions{RowGroupRows: 600, PageBytes: 2000})
	f := openFile(t, data)
	done := make(chan error)
	for k := range 8 {
		go func() {
			rng := rand.New(rand.NewPCG(uint64(k), 3))
			for range 10 {
				pos := []int64{rng.Int64N(2000), rng.Int64N(2000), rng.Int64N(2000)}
				rec, err := f.Fetch(t.Context(), pos, nil)
				if err != nil {
					done <- err
					return
				}
				for i, p := range pos {
					if diff := sameRows(rec, int64(i), whole, p); diff != "" {
						done <- fmt.Errorf("position %d: %s", p, diff)
						return
					}
				}
			}
			done <- nil
		}()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
