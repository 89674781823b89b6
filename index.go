package overlake

import (
	"context"
	"time"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/overlay"
)

// IndexSpec asks for an index. The zero value of everything but Columns is usable.
type IndexSpec struct {
	// Name is unique in the table, whatever its case; "" makes one of table, columns and kind, such as events_who_bitmap, and
	// of the metric of an index of vectors unless it is l2.
	Name string
	// Kind is "bitmap" (one column, or several as a composite key), which finds rows by value, range and prefix, or "bloom",
	// which is smaller and only tells which files cannot hold a value; "composite" means bitmap.
	//
	// Kinds over one column of vectors find the rows nearest to a vector, for ORDER BY distance LIMIT n: "hnsw" (a graph),
	// "hnsw_tq8" and "hnsw_tq4" (a graph over vectors in 8 and 4 bits a dimension), "ivfflat", "ivf", "ivf_tq8" and "ivf_tq4"
	// (lists around centroids), "flat" (all are compared). All but flat find most of the nearest, not always all; up to 1,000
	// vectors, every kind compares all. "" means bitmap, and hnsw_tq8 over a column of vectors.
	Kind string
	// Columns of the key, in their order: up to 16 of a bitmap index, one of all others. A column of vectors is one of type
	// vector(n), halfvec(n) or a list of FLOAT with as many elements in every row; other lists, structs and maps cannot be
	// indexed.
	Columns []string
	// Params are parameters of the kind: fpr of a Bloom index is the share of values taken for present although they are
	// not, from 0.0001 to 0.5; default 0.01. Those of an index of vectors are metric (l2, cosine, ip, l1, or one of pgvector's
	// operator classes; default l2; l1 by floats only), m (2 to 100, default 16) and ef_construction (4 to 1000, at least
	// twice m, default 200) of graphs, lists of lists, seed, and the effort of searches: ef_search of graphs, probes of lists,
	// rerank of all. The default of these is what was found right when a part was built.
	Params map[string]string
	// Async returns before the index is built; WaitForIndexes waits for it. DB.Close ends the build; the next commit to the
	// table goes on with it, and so does BuildIndexes.
	Async bool
	// Progress is told how far the build is. It is not called with Async.
	Progress func(IndexProgress)
}

// IndexProgress tells how far a build is. Files are those that some index did not cover when the build began.
type IndexProgress struct {
	Files, FilesDone int
	Rows, RowsDone   int64
	Bytes            int64 // of index so far
	// Vectors are those that the index at work is to hold, once all of them were read; VectorsDone found their place in it.
	Vectors, VectorsDone int64
}

// Index is an index of a table with what it covers of the current snapshot. Files that it does not cover are scanned.
type Index struct {
	Name        string
	Kind        string
	Columns     []string
	Params      map[string]string
	Created     time.Time
	Files       int   // data files of the snapshot
	Covered     int   // of these
	Rows        int64 // of the snapshot's files, deleted ones included
	RowsCovered int64 // of the files covered
	Bytes       int64
	Damaged     int // files whose part of the index was found unreadable; a build replaces it
}

// AddIndex defines an index and builds it. KindExists when the name is taken. An index never changes an answer: without
// it, and while it is built, the same rows are found by scanning. A build that fails or is cancelled leaves the index
// defined and covering what was built, and returns its name with the error; BuildIndexes goes on.
func (t *Table) AddIndex(ctx context.Context, spec IndexSpec) (Index, error) {
	l, err := t.load(ctx)
	if err != nil {
		return Index{}, err
	}
	o := t.db.overlays.Of(l)
	d, err := o.Define(ctx, l, overlay.Spec{Name: spec.Name, Kind: spec.Kind, Columns: spec.Columns, Params: spec.Params})
	if err != nil {
		return Index{}, err
	}
	defined := Index{Name: d.Name, Kind: d.Kind, Columns: spec.Columns, Params: d.Params, Created: d.Created}
	if spec.Async {
		t.db.overlays.Start(l)
	} else if _, err := o.Cover(ctx, l, buildOptions([]string{d.Name}, false, spec.Progress)); err != nil {
		return defined, errs.With(err, errs.Hint("the index %s is there and covers a part of the table; BuildIndexes goes on, DropIndex removes it", d.Name))
	}
	all, err := t.Indexes(ctx)
	for _, x := range all {
		if x.Name == d.Name {
			return x, nil
		}
	}
	return defined, err
}

func buildOptions(names []string, anew bool, progress func(IndexProgress)) overlay.BuildOptions {
	o := overlay.BuildOptions{Only: names, Anew: anew}
	if progress != nil {
		o.Progress = func(p overlay.Progress) { progress(IndexProgress(p)) }
	}
	return o
}

// DropIndex removes an index; KindNotFound when there is none of the name.
func (t *Table) DropIndex(ctx context.Context, name string) error {
	l, err := t.load(ctx)
	if err != nil {
		return err
	}
	return t.db.overlays.Of(l).Drop(ctx, name)
}

// Indexes lists the indexes of the table, by name.
func (t *Table) Indexes(ctx context.Context) ([]Index, error) {
	l, err := t.load(ctx)
	if err != nil {
		return nil, err
	}
	list, err := t.db.overlays.Of(l).Status(ctx, l)
	if err != nil {
		return nil, err
	}
	var out []Index
	for _, s := range list {
		out = append(out, Index{Name: s.Name, Kind: s.Kind, Columns: s.Columns, Params: s.Params, Created: s.Created,
			Files: s.Files, Covered: s.Covered, Rows: s.Rows, RowsCovered: s.InIndex, Bytes: s.Bytes, Damaged: s.Damaged})
	}
	return out, nil
}

// BuildIndexes builds what the named indexes, nil meaning all, do not cover; anew builds everything once more. It returns
// when they cover the current snapshot, also what other processes are building.
func (t *Table) BuildIndexes(ctx context.Context, names []string, anew bool, progress func(IndexProgress)) error {
	l, err := t.load(ctx)
	if err != nil {
		return err
	}
	_, err = t.db.overlays.Of(l).Cover(ctx, l, buildOptions(names, anew, progress))
	return err
}

// WaitForIndexes returns when no build of the table waits or runs in this process. Builds begin by themselves after
// commits.
func (t *Table) WaitForIndexes(ctx context.Context) error {
	l, err := t.load(ctx)
	if err != nil {
		return err
	}
	return t.db.overlays.Wait(ctx, l)
}

// VerifyIndexes reads everything that the indexes of the table consist of and gives what is damaged or missing. Damage
// costs speed, not answers; BuildIndexes mends what VerifyIndexes found.
func (t *Table) VerifyIndexes(ctx context.Context, progress func(done, total int)) ([]Problem, error) {
	l, err := t.load(ctx)
	if err != nil {
		return nil, err
	}
	var out []Problem
	err = t.db.overlays.Of(l).Verify(ctx, progress, func(object string, err error) { out = append(out, Problem{File: object, Err: err}) })
	return out, err
}

// CollectIndexGarbage removes what indexes no longer use: artifacts of dropped indexes and of files that no snapshot holds.
// It gives the number of bytes freed. Objects younger than an hour stay.
func (t *Table) CollectIndexGarbage(ctx context.Context) (int64, error) {
	l, err := t.load(ctx)
	if err != nil {
		return 0, err
	}
	gone, err := t.db.overlays.Of(l).Collect(ctx, l)
	var n int64
	for _, g := range gone {
		n += g.Size
	}
	return n, err
}

// WaitForIndexes returns when no index build waits or runs in this process.
func (db *DB) WaitForIndexes(ctx context.Context) error { return db.overlays.WaitAll(ctx) }

// BuildingIndexes tells whether an index build waits or runs in this process.
func (db *DB) BuildingIndexes() bool { return db.overlays.Busy() }

// IndexBuild is the build of the indexes of a table that waits or runs in the background.
type IndexBuild struct {
	Table string
	IndexProgress
}

// IndexBuilds lists the builds that wait or run in this process, the running one first.
func (db *DB) IndexBuilds() []IndexBuild {
	var out []IndexBuild
	for _, b := range db.overlays.Builds() {
		out = append(out, IndexBuild{Table: b.Table, IndexProgress: IndexProgress(b.Progress)})
	}
	return out
}

// Event is something that a person may want to know and that no call fails for, such as a damaged index.
type Event struct {
	Table  string
	Index  string // "" when none is concerned
	Object string // the file concerned
	What   string
	Err    error
}
