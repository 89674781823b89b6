// Package objstore answers: which bytes does a name stand for, and who may swap them?
//
// A store maps names to immutable objects. A name is a slash-separated relative key (see CheckName). A Reader opens,
// stats and lists objects; it has no method that writes, so a value of a read-only store cannot write even by mistake. A
// Store adds conditional writes. An ETag names one version of an object: opaque, and different after every replacement.
//
// What every store promises, and storetest checks:
//
//	O1  An object is visible under its name only when all its bytes are; readers never see half of one.
//	O2  After Put, Commit or Delete returned without error, what it did survives a crash.
//	O3  Of any number of writers with Condition.IfAbsent on one name exactly one succeeds, the others get Exists, also
//	    across processes. IfMatch is the same for replacing a known version; losers get Conflict. Unconditional writes
//	    and deletes take part: a version that one of them replaced no longer matches.
//	O4  List yields names in ascending byte order.
//	O5  An opened Object keeps its bytes even when its name is replaced or deleted.
//	O6  A refused or failed write leaves the name as it was, except that after Unavailable nobody knows: the write may
//	    have happened and only its answer was lost. Whoever gets Unavailable looks before trying again.
//
// All methods may be called by many goroutines at once, and every method that takes a context stops with Canceled when
// that ends, unless the deed is done already.
package objstore

import (
	"context"
	"errors"
	"io"
	"iter"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/overlakedb/overlake/internal/errs"
)

// Info describes an object.
type Info struct {
	Name    string
	Size    int64     // bytes
	ETag    string    // changes whenever the object is replaced
	ModTime time.Time // when the object was written
}

// Object is an opened object. ReadAt may be called by many goroutines at once and follows io.ReaderAt to the letter.
// The context of Open does not bind later reads, so an Object may be kept across queries; see ReadAt for reads that a
// query can cut short.
type Object interface {
	io.ReaderAt
	io.Closer
	Size() int64
	ETag() string
}

// ContextReaderAt is implemented by objects whose single reads can be cut short.
type ContextReaderAt interface {
	ReadAtContext(ctx context.Context, p []byte, off int64) (int, error)
}

// Getter is implemented by stores that are far away, where each request takes a round trip: a part of an object, and what it
// is, in one request, without opening it first.
type Getter interface {
	// Get reads up to most bytes from an offset on, fewer where the object ends; NotFound when there is none.
	Get(ctx context.Context, name string, off, most int64) ([]byte, Info, error)
}

// Near is implemented by objects that may answer a read at once, from memory or from a disk of this machine. Who needs several
// ranges of one that does asks for each: what lies between would cost more than the asking.
type Near interface {
	Near() bool
}

// Mapper is implemented by objects whose bytes can be mapped into memory, so that only what is used is read.
type Mapper interface {
	// Map maps a range of the object, which must not be empty. The bytes must not be written, and are there until unmap is
	// called, also when the object is closed before. When somebody cuts the file short, reading them is a fault of the
	// processor: who reads has to use debug.SetPanicOnFault.
	Map(off, length int64) (b []byte, unmap func(), err error)
}

// Reader is the half of a store that cannot write.
type Reader interface {
	// Open opens an object for ranged reads; NotFound when there is none.
	Open(ctx context.Context, name string) (Object, error)
	// Stat describes an object; NotFound when there is none.
	Stat(ctx context.Context, name string) (Info, error)
	// List yields the objects whose names begin with the prefix, ascending. The prefix is any string, not a directory:
	// "a/b" finds "a/b", "a/b/c" and "a/bc". An error ends the sequence. Objects that come or go during the listing may
	// be in it or not; all others are in it exactly once.
	List(ctx context.Context, prefix string) iter.Seq2[Info, error]
	// Location is the place as a URL without trailing slash: file:///data/warehouse, mem://test.
	Location() string
}

// Condition guards a write; the zero value always writes. Both fields at once are Invalid.
type Condition struct {
	IfAbsent bool   // only when there is no object of the name: else Exists
	IfMatch  string // only when the object is there and has this ETag: else Conflict
}

func (c Condition) check(op, name string) error {
	if c.IfAbsent && c.IfMatch != "" {
		return errs.New(errs.Invalid, op, "a write cannot ask for no object and for a version of it at once", errs.On(name))
	}
	return nil
}

// Writer streams one object. It is for one goroutine. Nothing is visible before Commit.
//
// Commit or Abort ends it, also when they fail: then Write and Commit are Invalid, and Abort does nothing, so that
// "defer w.Abort()" is right in every case. The context given to Create binds Write too.
type Writer interface {
	io.Writer
	Commit(ctx context.Context) (Info, error)
	Abort() error
}

// Store is a Reader that can write.
//
// A name and a longer one that continues it after a slash ("a/b" and "a/b/c") exclude each other in stores that keep
// objects as files: writing the second is Invalid there. Other stores keep both.
type Store interface {
	Reader
	// Put writes a whole object. The store does not keep data.
	Put(ctx context.Context, name string, data []byte, cond Condition) (Info, error)
	// Create starts to stream an object. The condition is judged at Commit.
	Create(ctx context.Context, name string, cond Condition) (Writer, error)
	// Delete removes an object; an absent one is no error.
	Delete(ctx context.Context, name string) error
}

// LocalPather is implemented by stores whose objects are plain files of this machine.
type LocalPather interface {
	// LocalPath is the file that the name stands for, whether it is there or not; false when it cannot be one.
	LocalPath(name string) (path string, ok bool)
}

// MaxName bounds a name in bytes; it is the limit of the object stores.
const MaxName = 1024

// reserved is the part of a name that stores keep for files of their own; see Local.
const reserved = ".overlake"

// CheckName refuses names that are empty, absolute, longer than MaxName, not UTF-8, reserved, or that could leave the
// store: every part between slashes must be non-empty and neither "." nor "..", without NUL and backslash.
func CheckName(name string) error {
	bad := func(why string) error {
		return errs.New(errs.Invalid, "objstore.name", "bad object name: "+why, errs.On(name))
	}
	switch {
	case name == "":
		return bad("it is empty")
	case len(name) > MaxName:
		return errs.New(errs.Invalid, "objstore.name", "bad object name: it is too long", errs.On(name[:64]+"…"))
	case !utf8.ValidString(name):
		return bad("it is not UTF-8")
	case strings.ContainsAny(name, "\x00\\"):
		return bad("it holds a NUL or a backslash")
	}
	for part := range strings.SplitSeq(name, "/") {
		switch part {
		case "":
			return bad("a part between slashes is empty")
		case ".", "..":
			return bad("a part is " + part)
		case reserved:
			return bad("the part " + reserved + " is reserved for the store's own files")
		}
	}
	return nil
}

// ReadAt reads like o.ReadAt and stops with Canceled when the context ends: at once where the object can
// (ContextReaderAt), else before the next read.
func ReadAt(ctx context.Context, o Object, p []byte, off int64) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, errs.Wrap(errs.Canceled, "objstore.read", err)
	}
	if c, ok := o.(ContextReaderAt); ok {
		return c.ReadAtContext(ctx, p, off)
	}
	return o.ReadAt(p, off)
}

// ReadAll reads a whole object of at most limit bytes; a larger one is Exhausted. The Info has no ModTime.
func ReadAll(ctx context.Context, r Reader, name string, limit int64) ([]byte, Info, error) {
	const op = "objstore.read"
	tooLarge := func(size int64) error {
		return errs.With(errs.Newf(errs.Exhausted, op, "the object has %d bytes, more than the %d it may have", size, limit), errs.On(name))
	}
	if g, ok := r.(Getter); ok {
		data, info, err := g.Get(ctx, name, 0, limit)
		switch {
		case err != nil:
			return nil, Info{}, err
		case info.Size > limit:
			return nil, Info{}, tooLarge(info.Size)
		}
		return data, Info{Name: name, Size: info.Size, ETag: info.ETag}, nil
	}
	o, err := r.Open(ctx, name)
	if err != nil {
		return nil, Info{}, err
	}
	defer o.Close()
	if o.Size() > limit {
		return nil, Info{}, tooLarge(o.Size())
	}
	data := make([]byte, o.Size())
	for done := 0; done < len(data); {
		n, err := ReadAt(ctx, o, data[done:], int64(done))
		done += n
		if done == len(data) {
			break
		}
		switch {
		case err == nil || errors.Is(err, io.EOF):
			return nil, Info{}, errs.Wrap(errs.Unavailable, op, io.ErrUnexpectedEOF, errs.On(name),
				errs.Hint("somebody shortens the file in place"))
		default:
			return nil, Info{}, errs.With(err, errs.On(name))
		}
	}
	return data, Info{Name: name, Size: o.Size(), ETag: o.ETag()}, nil
}

func check(ctx context.Context, op, name string) error {
	if err := ctx.Err(); err != nil {
		return errs.Wrap(errs.Canceled, op, err, errs.On(name))
	}
	return CheckName(name)
}

// The refusals that all stores share.

func notFound(op, name string) error {
	return errs.New(errs.NotFound, op, "no such object", errs.On(name))
}

func exists(name string) error {
	return errs.New(errs.Exists, "objstore.put", "the object exists already", errs.On(name))
}

func changed(name string) error {
	return errs.New(errs.Conflict, "objstore.put", "the object was changed by somebody else", errs.On(name))
}

func spent(op, name string) error {
	return errs.New(errs.Invalid, op, "the writer has ended already", errs.On(name))
}
