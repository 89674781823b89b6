package lake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	iceio "github.com/apache/iceberg-go/io"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/objstore"
)

// fileIO is iceberg-go's view of a store: absolute locations in, names of the store out.
type fileIO struct {
	ctx      context.Context
	store    objstore.Reader
	writable objstore.Store // nil: read-only
	// prefixes map what locations begin with, as pathKey gives it and without a trailing slash, to a name of the store;
	// the longest match counts.
	prefixes []prefix
}

type prefix struct{ from, to string }

// rooted is the fileIO of a store whose locations all begin with the store's own.
func rooted(store objstore.Reader) *fileIO {
	w, _ := store.(objstore.Store)
	return &fileIO{ctx: context.Background(), store: store, writable: w, prefixes: []prefix{{rootKey(store), ""}}}
}

// rootKey is what the locations of a store begin with.
func rootKey(store objstore.Reader) string {
	return strings.TrimRight(pathKey(store.Location()+"/"), "/")
}

// with gives the same view under another context.
func (f *fileIO) with(ctx context.Context) *fileIO {
	c := *f
	c.ctx = ctx
	return &c
}

// name finds the object behind a location.
func (f *fileIO) name(location string) (string, error) {
	key := pathKey(location)
	best := -1
	for i, p := range f.prefixes {
		if (key == p.from || strings.HasPrefix(key, p.from+"/") || p.from == "") && (best < 0 || len(p.from) > len(f.prefixes[best].from)) {
			best = i
		}
	}
	outside := func(cause error) error {
		return errs.Wrap(errs.Denied, "lake.open", fmt.Errorf("the table names a file outside its place: %w", cause), errs.On(location),
			errs.Hint("mount it with the prefix that its files are below"))
	}
	if best < 0 {
		return "", outside(errs.New(errs.NotFound, "lake.open", "no prefix of it is known"))
	}
	p := f.prefixes[best]
	name := strings.Trim(p.to+"/"+strings.TrimPrefix(strings.TrimPrefix(key, p.from), "/"), "/")
	if strings.Contains(name, "/./") || strings.HasPrefix(name, "./") {
		name = strings.TrimPrefix(strings.ReplaceAll(name, "/./", "/"), "./")
	}
	// Paths that climb are refused here and never cleaned: what is above the table is not the table.
	if err := objstore.CheckName(name); err != nil {
		return "", outside(err)
	}
	return name, nil
}

// location is the absolute location of a name.
func (f *fileIO) location(name string) string { return f.store.Location() + "/" + name }

// read gets a whole metadata object.
func (f *fileIO) read(ctx context.Context, location string) ([]byte, error) {
	name, err := f.name(location)
	if err != nil {
		return nil, err
	}
	data, _, err := objstore.ReadAll(ctx, f.store, name, maxMetadata)
	return data, err
}

func (f *fileIO) Open(location string) (iceio.File, error) {
	name, err := f.name(location)
	if err != nil {
		return nil, err
	}
	o, err := f.store.Open(f.ctx, name)
	if err != nil {
		return nil, err
	}
	return &openFile{SectionReader: io.NewSectionReader(o, 0, o.Size()), o: o, name: name}, nil
}

func (f *fileIO) Remove(location string) error {
	if f.writable == nil {
		return errs.New(errs.Denied, "lake.remove", "the store is read-only", errs.On(location))
	}
	name, err := f.name(location)
	if err != nil {
		return err
	}
	return f.writable.Delete(f.ctx, name)
}

// writer is the fileIO of iceberg-go's writing code: manifests, manifest lists and deletion vectors, each noted.
type writer struct {
	*fileIO
	made *ledger
}

func (w writer) WriteFile(location string, p []byte) error {
	name, err := w.name(location)
	if err != nil {
		return err
	}
	w.made.note(name, int64(len(p)))
	_, err = w.writable.Put(w.ctx, name, p, objstore.Condition{IfAbsent: true})
	return err
}

func (w writer) Create(location string) (iceio.FileWriter, error) {
	name, err := w.name(location)
	if err != nil {
		return nil, err
	}
	o, err := w.writable.Create(w.ctx, name, objstore.Condition{IfAbsent: true})
	if err != nil {
		return nil, err
	}
	w.made.note(name, -1)
	return &createFile{w: w, o: o, name: name}, nil
}

// createFile streams an object. iceberg-go closes it after a failed write too, so an object with a failed write is dropped.
type createFile struct {
	w    writer
	o    objstore.Writer
	name string
	n    int64
	err  error
}

func (c *createFile) Write(p []byte) (int, error) {
	n, err := c.o.Write(p)
	c.n += int64(n)
	if err != nil {
		c.err = err
	}
	return n, err
}

// ReadFrom is io.ReaderFrom; io.Copy with c itself as the target would call it for ever.
func (c *createFile) ReadFrom(r io.Reader) (int64, error) { return io.Copy(onlyWriter{c}, r) }

type onlyWriter struct{ io.Writer }

func (c *createFile) Close() error {
	if c.err != nil {
		return errors.Join(c.err, c.o.Abort())
	}
	_, err := c.o.Commit(c.w.ctx)
	c.w.made.note(c.name, c.n)
	return err
}

type openFile struct {
	*io.SectionReader
	o    objstore.Object
	name string
}

func (f *openFile) Close() error               { return f.o.Close() }
func (f *openFile) Stat() (fs.FileInfo, error) { return f, nil }
func (f *openFile) Name() string               { return path.Base(f.name) }
func (f *openFile) Mode() fs.FileMode          { return 0o444 }
func (f *openFile) ModTime() time.Time         { return time.Time{} }
func (f *openFile) IsDir() bool                { return false }
func (f *openFile) Sys() any                   { return nil }
func (f *openFile) Size() int64                { return f.o.Size() }
