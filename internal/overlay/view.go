package overlay

import (
	"context"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bitmap"
	"github.com/overlakedb/overlake/internal/index/bloom"
	"github.com/overlakedb/overlake/internal/index/bm25/segment"
	"github.com/overlakedb/overlake/internal/index/vector"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/predicate"
	"github.com/overlakedb/overlake/internal/row"
)

// covers tells whether an artifact speaks of the file as it is now.
func (a *Artifact) covers(key FileKey, print string) bool {
	if a.Fingerprint != print {
		return false
	}
	_, ok := a.base(key)
	return ok
}

func (a *Artifact) base(key FileKey) (int64, bool) {
	for i := range a.Files {
		if a.Files[i].Path == key.Path {
			return a.Files[i].Base, a.Files[i].FileKey == key
		}
	}
	return 0, false
}

// View is the overlay as one query sees it: a version that stays the same, and what was looked up so far. It is safe for
// concurrent use.
type View struct {
	o       *Overlay
	v       *Version
	indexes []*Index

	mu    sync.Mutex
	keys  map[string]keyResult
	found map[findKey]*found
}

type keyResult struct {
	key FileKey
	err error
}

// Index is a definition as a view sees it.
type Index struct {
	Definition
	view  *View
	print string
}

// View opens the newest version for the schema that a query reads by. Indexes over columns that the schema lacks are left
// out.
func (o *Overlay) View(ctx context.Context, sc *arrow.Schema) (*View, error) {
	v, err := o.version(ctx)
	if err != nil {
		return nil, err
	}
	w := &View{o: o, v: v, keys: map[string]keyResult{}, found: map[findKey]*found{}}
	for _, d := range sorted(v.Definitions()) {
		if print, ok := fingerprint(&d, sc); ok {
			w.indexes = append(w.indexes, &Index{Definition: d, view: w, print: print})
		}
	}
	return w, nil
}

// Version is the number of the version that the view sees; 0 when there is no overlay.
func (w *View) Version() int64 { return w.v.Number }

// Indexes lists the indexes, by name.
func (w *View) Indexes() []*Index { return w.indexes }

// key is what a data file is now; asked once a view.
func (w *View) key(ctx context.Context, f *lake.DataFile) (FileKey, error) {
	w.mu.Lock()
	k, ok := w.keys[f.Path]
	w.mu.Unlock()
	if ok {
		return k.key, k.err
	}
	k.key, k.err = keyOf(ctx, f)
	if errs.Is(k.err, errs.Canceled) {
		return k.key, k.err
	}
	w.mu.Lock()
	w.keys[f.Path] = k
	w.mu.Unlock()
	return k.key, k.err
}

// Artifact is the artifact of the index that covers a file, without opening it, and the place of the file's first row in
// it; nil when there is none.
func (x *Index) Artifact(ctx context.Context, f *lake.DataFile) (a *Artifact, base int64, err error) {
	a, ok := x.view.v.Artifact(x.ID, f.Path)
	if !ok {
		return nil, 0, nil
	}
	return x.check(ctx, f, a)
}

// check gives an artifact that names a file of the path, and the place of the file in it, if it covers the file as it is now.
func (x *Index) check(ctx context.Context, f *lake.DataFile, a *Artifact) (*Artifact, int64, error) {
	key, err := x.view.key(ctx, f)
	if err != nil {
		if errs.Is(err, errs.Canceled) {
			return nil, 0, err
		}
		return nil, 0, nil // the scan will tell that the file is gone
	}
	base, same := a.base(key)
	if !same {
		x.view.o.event(Event{Index: x.Name, Object: f.Path, What: "the data file was replaced since it was indexed"})
	}
	if !same || a.Fingerprint != x.print {
		return nil, 0, nil
	}
	return a, base, nil
}

// On opens the index over a data file; nil when the index does not cover it or cannot be read, which is reported. An error
// means that the query is at its end.
func (x *Index) On(ctx context.Context, f *lake.DataFile) (*OnFile, error) {
	named, ok := x.view.v.Artifact(x.ID, f.Path)
	if !ok || named.Fingerprint != x.print {
		return nil, nil
	}
	// What the file is now and what the artifact says may each take a round trip, so both are asked at once.
	var failed error
	var wait sync.WaitGroup
	r := x.view.o.set.cache.opened(named)
	if r == nil {
		wait.Go(func() { r, failed = x.view.o.set.cache.reader(ctx, named) })
	}
	a, base, err := x.check(ctx, f, named)
	wait.Wait()
	if a == nil || err != nil {
		return nil, err
	}
	if failed != nil {
		return nil, x.damaged(ctx, a, failed)
	}
	if r == nil || r.bitmap == nil && r.bloom == nil {
		return nil, nil
	}
	return &OnFile{index: x, a: a, r: r, base: base, rows: f.Rows}, nil
}

// damaged makes an artifact count as not there, unless the query itself was ended: for this query when the store only failed
// to answer, for all when it can never be read again.
func (x *Index) damaged(ctx context.Context, a *Artifact, err error) error {
	if ctx.Err() != nil {
		return errs.Wrap(errs.Canceled, "overlay.read", ctx.Err())
	}
	what := "an artifact could not be read"
	if lost(err) || errs.Is(err, errs.Unsupported) {
		x.view.o.set.cache.bad(a)
		what = "an artifact cannot be used and is ignored until the index is built anew"
	}
	x.view.o.event(Event{Index: x.Name, Object: a.Bundle, What: what, Err: err})
	return nil
}

// OnFile is an index on one data file.
type OnFile struct {
	index *Index
	a     *Artifact
	r     *reader
	base  int64
	rows  int64
}

// shared tells that the artifact covers other files too.
func (f *OnFile) shared() bool { return f.r.rows != f.rows }

// Estimate bounds the rows of the file whose key is in the set, NULL counting if null is set. Nothing is read.
func (f *OnFile) Estimate(keys predicate.Ranges, null bool) (least, most int64) {
	if f.r.bloom != nil {
		if !f.r.mayMatch(keys, null) {
			return 0, 0
		}
		return 0, f.rows
	}
	least, most = f.r.bitmap.Estimate(keys, null)
	if f.shared() {
		// Any of them may be in this file.
		return 0, min(most, f.rows)
	}
	return least, min(most, f.rows)
}

// Exact tells whether the index gives the rows of a key; otherwise it can only rule files out.
func (f *OnFile) Exact() bool { return f.r.bitmap != nil }

// findKey names a question to an artifact.
type findKey struct {
	a    *Artifact
	keys *predicate.Range // the first of the ranges: ranges of one leaf are one slice
	n    int
	null bool
}

type found struct {
	once sync.Once
	set  *row.Bitmap
	err  error
}

// Find gives the positions in the file of the rows whose key is in the set. ok is false when the index cannot tell, because
// its artifact is damaged. The set must not be changed.
func (f *OnFile) Find(ctx context.Context, keys predicate.Ranges, null bool) (set *row.Bitmap, ok bool, err error) {
	if f.r.bitmap == nil {
		if !f.r.mayMatch(keys, null) {
			return row.NewBitmap(), true, nil
		}
		return nil, false, nil
	}
	if !f.shared() {
		set, err = f.r.bitmap.Find(ctx, keys, null)
	} else {
		// The files of one artifact ask the same in turn.
		w := f.index.view
		k := findKey{a: f.a, n: len(keys), null: null}
		if len(keys) > 0 {
			k.keys = &keys[0]
		}
		w.mu.Lock()
		x := w.found[k]
		if x == nil {
			x = &found{}
			w.found[k] = x
		}
		w.mu.Unlock()
		x.once.Do(func() { x.set, x.err = f.r.bitmap.Find(ctx, keys, null) })
		if set, err = x.set, x.err; err == nil {
			set = set.Part(f.base, f.rows)
		}
	}
	if err != nil {
		return nil, false, f.index.damaged(ctx, f.a, err)
	}
	if set.Max() >= f.rows {
		return nil, false, f.index.damaged(ctx, f.a, errs.Newf(errs.Corrupt, "overlay.find", "the index names row %d of %d", set.Max(), f.rows))
	}
	return set, true, nil
}

// Count is the number of rows of the file whose key is in the set, for artifacts of one file; ok as with Find.
func (f *OnFile) Count(ctx context.Context, keys predicate.Ranges, null bool) (n int64, ok bool, err error) {
	if f.r.bitmap == nil {
		return 0, false, nil
	}
	if f.shared() {
		set, ok, err := f.Find(ctx, keys, null)
		return set.Len(), ok, err
	}
	if n, err = f.r.bitmap.Count(ctx, keys, null); err != nil {
		return 0, false, f.index.damaged(ctx, f.a, err)
	}
	return n, true, nil
}

// Walk yields the keys of the set in order with their rows in the file, for artifacts of one file; ok as with Find. The
// rows must not be kept.
func (f *OnFile) Walk(ctx context.Context, keys predicate.Ranges, descending bool, yield func(key []byte, rows []int64) bool) (ok bool, err error) {
	if f.r.bitmap == nil {
		return false, nil
	}
	var part []int64
	err = f.r.bitmap.Walk(ctx, keys, descending, func(key []byte, rows []int64) bool {
		if !f.shared() {
			return yield(key, rows)
		}
		part = part[:0]
		for _, p := range rows {
			if p >= f.base && p < f.base+f.rows {
				part = append(part, p-f.base)
			}
		}
		return len(part) == 0 || yield(key, part)
	})
	if err != nil {
		return false, f.index.damaged(ctx, f.a, err)
	}
	return true, nil
}

// Distinct bounds the number of different keys of the set, without reading anything; ok is false when the index cannot tell.
func (f *OnFile) Distinct(keys predicate.Ranges) (most int64, ok bool) {
	if f.r.bitmap == nil {
		return 0, false
	}
	return f.r.bitmap.Distinct(keys), true
}

// Firsts yields the keys of the set in order, each with the first of its rows, but for keys that are known, which may be left
// out; ok as with Find. Where the artifact covers other files too, that row may be one of theirs, and is then none of the
// file's positions.
func (f *OnFile) Firsts(ctx context.Context, keys predicate.Ranges, known func(key []byte) bool, yield func(key []byte, pos int64) bool) (ok bool, err error) {
	if f.r.bitmap == nil {
		return false, nil
	}
	err = f.r.bitmap.Firsts(ctx, keys, known, func(key []byte, row int64) bool { return yield(key, row-f.base) })
	if err != nil {
		return false, f.index.damaged(ctx, f.a, err)
	}
	return true, nil
}

// FirstNull is the first position with NULL, -1 when there is none, for artifacts of one file; ok as with Find.
func (f *OnFile) FirstNull(ctx context.Context) (pos int64, ok bool, err error) {
	if f.r.bitmap == nil {
		return 0, false, nil
	}
	if f.shared() {
		set, ok, err := f.Find(ctx, nil, true)
		if !ok || err != nil {
			return 0, false, err
		}
		for p := range set.All() {
			return p, true, nil
		}
		return -1, true, nil
	}
	pos, some, err := f.r.bitmap.FirstNull(ctx)
	if err != nil {
		return 0, false, f.index.damaged(ctx, f.a, err)
	}
	if !some {
		pos = -1
	}
	return pos, true, nil
}

// reader is an opened artifact.
type reader struct {
	bitmap *bitmap.Reader
	bloom  *bloom.Filter
	vector *vector.Reader
	text   *segment.Reader
	rows   int64
}

// maxPoints bounds the values that a Bloom filter is asked for.
const maxPoints = 10_000

func (r *reader) mayMatch(keys predicate.Ranges, null bool) bool {
	return len(keys) > maxPoints || r.bloom.MayMatch(keys, null)
}
