package engine

/*
#include <stdlib.h>
#include "engine.h"
*/
import "C"

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/overlakedb/overlake/internal/errs"
)

// A file is what a virtual path stands for.
type file struct {
	name   string // for messages: the real path, or what AddReader was told
	reader io.ReaderAt
	size   int64
	ctx    context.Context

	refs   int                   // the registration and every open descriptor; guarded by files
	failed atomic.Pointer[error] // the last error of a read: the engine's message knows only an error number
}

// files are the registered ones of the process, by path for messages and by number for reads.
var files = struct {
	sync.Mutex
	last   int64
	byPath map[string]*file
	byID   map[int64]*file
}{byPath: map[string]*file{}, byID: map[int64]*file{}}

// door is how the files come in: by the linker's wrapping (wrapped) or as links in a private directory (linked).
type door interface {
	// add makes a local file known under a new path that ends in tail.
	add(tail, local string, writable bool) (path string, remove func(), err error)
	// addReader makes a file that Go reads known, whose reads are those of number id.
	addReader(tail string, id int64, f *file) (path string, remove func(), err error)
	// dir is the directory of the paths, with a slash at the end.
	dir() string
}

// AddFile makes a file of this machine readable for queries and returns the path to use in SQL. The path keeps the
// extension and holds no character that globbing or quoting knows. release forgets it: call it when the queries that use
// the path are closed. A query that still runs then reads on where it has the file open, and fails where it has not.
func (db *DB) AddFile(localPath string) (path string, release func(), err error) {
	return db.addFile(&file{name: localPath}, localPath, false)
}

// AddOutput is AddFile for the file that RunCopy writes. It must not be one that exists and matters: it is overwritten.
func (db *DB) AddOutput(localPath string) (path string, release func(), err error) {
	return db.addFile(&file{name: localPath}, localPath, true)
}

// AddReader is AddFile for anything that can be read at an offset. The reader must allow calls from several goroutines.
// When ctx ends, reads that are under way fail at once, whether or not the reader returns; it is the context of the query
// that uses the file. Errors of the reader become the cause of the query's error. name is for messages.
func (db *DB) AddReader(ctx context.Context, name string, r io.ReaderAt, size int64) (path string, release func(), err error) {
	if size < 0 {
		return "", nil, errs.Newf(errs.Invalid, "engine.file", "%s has a negative size", name)
	}
	return db.addFile(&file{name: name, reader: r, size: size, ctx: ctx}, name, false)
}

func (db *DB) addFile(f *file, name string, writable bool) (string, func(), error) {
	if db.isClosing() {
		return "", nil, errClosed("engine.file")
	}
	ext := filepath.Ext(name)
	for _, c := range ext {
		if c != '.' && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			ext = ""
			break
		}
	}
	// The name is not to be guessed: who may read one table must not find the files of another by counting.
	var secret [8]byte
	if _, err := rand.Read(secret[:]); err != nil {
		return "", nil, errs.Wrap(errs.Internal, "engine.file", err)
	}
	ext = "-" + hex.EncodeToString(secret[:]) + ext
	f.refs = 1
	files.Lock()
	files.last++
	id := files.last
	if f.reader != nil {
		files.byID[id] = f
	}
	files.Unlock()
	var path string
	var remove func()
	var err error
	if f.reader != nil {
		path, remove, err = db.door.addReader(ext, id, f)
	} else {
		path, remove, err = db.door.add(ext, name, writable)
	}
	files.Lock()
	defer files.Unlock()
	if err != nil {
		delete(files.byID, id)
		return "", nil, errs.Wrap(errs.KindOf(err), "engine.file", err, errs.On(name))
	}
	files.byPath[path] = f
	var once sync.Once
	return path, func() {
		once.Do(func() {
			remove()
			files.Lock()
			defer files.Unlock()
			delete(files.byPath, path)
			drop(id, f)
		})
	}, nil
}

// drop gives a reference back; the lock of files is held.
func drop(id int64, f *file) {
	if f.refs--; f.refs == 0 {
		delete(files.byID, id)
	}
}

func fileByID(id C.int64_t) *file {
	files.Lock()
	defer files.Unlock()
	return files.byID[int64(id)]
}

//export ovFileOpen
func ovFileOpen(id C.int64_t) C.bool {
	files.Lock()
	defer files.Unlock()
	f := files.byID[int64(id)]
	if f == nil {
		return false
	}
	f.refs++
	return true
}

//export ovFileClose
func ovFileClose(id C.int64_t) {
	files.Lock()
	defer files.Unlock()
	if f := files.byID[int64(id)]; f != nil {
		drop(int64(id), f)
	}
}

//export ovFileRead
func ovFileRead(id C.int64_t, to unsafe.Pointer, n, at C.int64_t) C.int64_t {
	f := fileByID(id)
	if f == nil || at < 0 || n < 0 {
		return -C.int64_t(syscall.EBADF)
	}
	n = min(n, max(C.int64_t(f.size)-at, 0))
	if n == 0 {
		return 0
	}
	if err := f.readAt(unsafe.Slice((*byte)(to), n), int64(at)); err != nil {
		f.failed.Store(&err)
		return -C.int64_t(errorNumber(err))
	}
	return n
}

// readPiece bounds the memory of a read that can be abandoned.
const readPiece = 8 << 20

// readAt fills p. With a context that can end, the reader works on memory of its own, because it may still be writing to
// it after the engine was told that the read failed.
func (f *file) readAt(p []byte, at int64) error {
	if f.ctx.Done() == nil {
		return f.fill(p, at)
	}
	for len(p) > 0 {
		piece := make([]byte, min(len(p), readPiece))
		done := make(chan error, 1)
		go func() { done <- f.fill(piece, at) }()
		select {
		case err := <-done:
			if err != nil {
				return err
			}
		case <-f.ctx.Done():
			return errs.Wrap(errs.Canceled, "engine.read", f.ctx.Err(), errs.On(f.name))
		}
		n := copy(p, piece)
		p, at = p[n:], at+int64(n)
	}
	return nil
}

func (f *file) fill(p []byte, at int64) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errs.Newf(errs.Internal, "engine.read", "reading panicked: %v", r)
		}
	}()
	n, err := f.reader.ReadAt(p, at)
	switch {
	case n == len(p):
		return nil
	case err == nil || errors.Is(err, io.EOF):
		return errs.New(errs.Corrupt, "engine.read", fmt.Sprintf("the file ends before its %d bytes", f.size), errs.On(f.name))
	}
	return err
}

// errorNumber is what the engine is told of an error; the error itself is found again in fileError.
func errorNumber(err error) syscall.Errno {
	switch errs.KindOf(err) {
	case errs.NotFound:
		return syscall.ENOENT
	case errs.Denied, errs.Unauthenticated:
		return syscall.EACCES
	case errs.Canceled:
		return syscall.ECANCELED
	}
	return syscall.EIO
}

var virtualPath = regexp.MustCompile(`(?:/\.overlake-files/[0-9a-f]{32}|[^\s"'\[(]*/overlake-files-[0-9]+)/[0-9a-z]+-[0-9a-f]{16}(?:\.[a-z0-9]+)?`)

// nameFiles puts the names of files into a message of DuckDB, and gives the Go error of the first file that had one.
func nameFiles(message string) (named string, ours bool, cause error) {
	files.Lock()
	defer files.Unlock()
	named = virtualPath.ReplaceAllStringFunc(message, func(v string) string {
		ours = true
		f := files.byPath[v]
		if f == nil {
			return "a released file"
		}
		if e := f.failed.Load(); e != nil && cause == nil {
			cause = *e
		}
		return f.name
	})
	return named, ours, cause
}

// FileCount is the number of registered files, for tests of what is left behind.
func FileCount() int {
	files.Lock()
	defer files.Unlock()
	return len(files.byPath) + len(files.byID)
}

// wrapped registers files with the C of files.c.
type wrapped struct {
	prefix string
	last   atomic.Int64
}

func (w *wrapped) dir() string { return w.prefix }

func (w *wrapped) add(ext, local string, writable bool) (string, func(), error) {
	real := C.CString(local)
	defer C.free(unsafe.Pointer(real))
	return w.put(ext, real, writable, 0, 0)
}

func (w *wrapped) addReader(ext string, id int64, f *file) (string, func(), error) {
	return w.put(ext, nil, false, id, f.size)
}

func (w *wrapped) put(ext string, real *C.char, writable bool, id, size int64) (string, func(), error) {
	path := w.prefix + strconv.FormatInt(w.last.Add(1), 36) + ext
	virtual := C.CString(path)
	if !C.ov_file_add(virtual, real, C.bool(writable), C.int64_t(id), C.int64_t(size)) {
		C.free(unsafe.Pointer(virtual))
		return "", nil, errs.New(errs.Exhausted, "engine.file", "out of memory")
	}
	return path, func() {
		C.ov_file_remove(virtual)
		C.free(unsafe.Pointer(virtual))
	}, nil
}
