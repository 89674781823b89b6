// Package objstore answers: which bytes does a name stand for, and who may swap them?
//
// A store maps names to immutable objects. A name is a slash-separated relative key (see CheckName). A Reader opens,
// stats and lists objects; it has no method that writes, so a value of a read-only store cannot write even by mistake. A
// Store adds conditional writes.
//
// What every store promises, and storetest checks:
//
//	O1  An object is visible under its name only when all its bytes are; readers never see half of one.
//	O2  After Put or Commit returned, the object survives a crash.
//	O3  Of any number of writers with Condition.IfAbsent on one name exactly one succeeds, the others get Exists, also
//	    across processes. IfMatch is the same for replacing a known version; losers get Conflict.
//	O4  List yields names in ascending byte order.
//	O5  An opened Object keeps its bytes even when its name is replaced or deleted.
package objstore

import (
	"context"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/overlakedb/overlake/internal/errs"
)

// Info describes an object.
type Info struct {
	Name    string
	Size    int64
	ETag    string // changes whenever the object is replaced
	ModTime time.Time
}

// Object is an opened object. ReadAt may be called by many goroutines at once.
type Object interface {
	io.ReaderAt
	io.Closer
	Size() int64
	ETag() string
}

// Reader is the half of a store that cannot write.
type Reader interface {
	// Open opens an object for ranged reads; NotFound when there is none.
	Open(ctx context.Context, name string) (Object, error)
	// Stat describes an object; NotFound when there is none.
	Stat(ctx context.Context, name string) (Info, error)
	// List yields the objects whose names begin with the prefix, ascending. An error ends the sequence.
	List(ctx context.Context, prefix string) iter.Seq2[Info, error]
	// Location is the place as a URL without trailing slash: file:///data/warehouse, mem://test.
	Location() string
}

// Condition guards a write; the zero value always writes.
type Condition struct {
	IfAbsent bool   // only when there is no object of the name: else Exists
	IfMatch  string // only when the object has this ETag: else Conflict
}

// Writer streams one object. Nothing is visible before Commit; Abort drops it. One of the two must be called.
type Writer interface {
	io.Writer
	Commit(ctx context.Context) (Info, error)
	Abort() error
}

// Store is a Reader that can write.
type Store interface {
	Reader
	// Put writes a whole object.
	Put(ctx context.Context, name string, data []byte, cond Condition) (Info, error)
	// Create starts to stream an object.
	Create(ctx context.Context, name string, cond Condition) (Writer, error)
	// Delete removes an object; an absent one is no error.
	Delete(ctx context.Context, name string) error
}

// LocalPather is implemented by stores whose objects are plain files of this machine.
type LocalPather interface {
	LocalPath(name string) (path string, ok bool)
}

// MaxName bounds a name in bytes.
const MaxName = 1024

// CheckName refuses names that are empty, absolute, too long, or that could leave the store: every part between slashes
// must be non-empty and neither "." nor "..", without NUL and backslash.
func CheckName(name string) error {
	bad := func(why string) error {
		return errs.New(errs.Invalid, "objstore.name", "bad object name: "+why, errs.On(name))
	}
	if name == "" {
		return bad("empty")
	}
	if len(name) > MaxName {
		return errs.New(errs.Invalid, "objstore.name", "bad object name: too long", errs.On(name[:64]+"…"))
	}
	if strings.ContainsAny(name, "\x00\\") {
		return bad("it holds a NUL or a backslash")
	}
	for part := range strings.SplitSeq(name, "/") {
		switch part {
		case "":
			return bad("an empty part between slashes")
		case ".", "..":
			return bad("a part that is " + part)
		}
	}
	return nil
}

// ReadAll reads a whole object of at most limit bytes; a larger one is Exhausted.
func ReadAll(ctx context.Context, r Reader, name string, limit int64) ([]byte, Info, error) {
	o, err := r.Open(ctx, name)
	if err != nil {
		return nil, Info{}, err
	}
	defer o.Close()
	if o.Size() > limit {
		return nil, Info{}, errs.New(errs.Exhausted, "objstore.read", "the object is larger than it may be", errs.On(name))
	}
	data := make([]byte, o.Size())
	if _, err := io.ReadFull(io.NewSectionReader(o, 0, o.Size()), data); err != nil {
		return nil, Info{}, errs.Wrap(errs.Unavailable, "objstore.read", err, errs.On(name))
	}
	return data, Info{Name: name, Size: o.Size(), ETag: o.ETag()}, nil
}

// ReadOnly gives the reading half of a store as a value that has no other methods, so that no type assertion finds a
// writer behind it.
func ReadOnly(r Reader) Reader {
	if p, ok := r.(LocalPather); ok {
		return readOnlyLocal{readOnly{r}, p}
	}
	return readOnly{r}
}

type readOnly struct{ r Reader }

func (o readOnly) Open(ctx context.Context, name string) (Object, error) { return o.r.Open(ctx, name) }
func (o readOnly) Stat(ctx context.Context, name string) (Info, error)   { return o.r.Stat(ctx, name) }
func (o readOnly) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return o.r.List(ctx, prefix)
}
func (o readOnly) Location() string { return o.r.Location() }

type readOnlyLocal struct {
	readOnly
	p LocalPather
}

func (o readOnlyLocal) LocalPath(name string) (string, bool) { return o.p.LocalPath(name) }
