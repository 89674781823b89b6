package objstore

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/overlakedb/overlake/internal/errs"
)

// hiddenPrefix begins the names of files that are not objects: half-written ones and the lock. List leaves them out, and
// no object may use it.
const hiddenPrefix = ".overlake-"

// Local is a store in a directory. An object is a plain file below it.
//
// Writing an object: write a hidden temporary file in the object's directory, fsync it, publish it with link (IfAbsent)
// or rename (otherwise), fsync the directory. Replacing under IfMatch holds a flock on a hidden lock file from the check
// to the rename, so it excludes other processes too.
type Local struct {
	localReader
	noSync bool
}

// LocalOptions configure a Local store.
type LocalOptions struct {
	// NoSync leaves out every fsync: for tests only, since O2 does not hold then.
	NoSync bool
}

// OpenLocal opens a directory as a store and creates it when it is missing.
func OpenLocal(dir string, opts LocalOptions) (*Local, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, localError("objstore.open", dir, err)
	}
	if err := os.MkdirAll(abs, 0o777); err != nil {
		return nil, localError("objstore.open", dir, err)
	}
	r, err := openReader(abs)
	if err != nil {
		return nil, err
	}
	return &Local{localReader: *r, noSync: opts.NoSync}, nil
}

// OpenLocalReadOnly opens an existing directory without any way to write.
func OpenLocalReadOnly(dir string) (Reader, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, localError("objstore.open", dir, err)
	}
	return openReader(abs)
}

// localReader is the reading half; os.Root keeps every path, symlinks included, inside the directory.
type localReader struct {
	dir  string
	root *os.Root
}

func openReader(abs string) (*localReader, error) {
	root, err := os.OpenRoot(abs)
	if err != nil {
		return nil, localError("objstore.open", abs, err)
	}
	return &localReader{dir: abs, root: root}, nil
}

// Location is file:// and the absolute directory.
func (l *localReader) Location() string { return "file://" + l.dir }

// LocalPath is the file behind a name.
func (l *localReader) LocalPath(name string) (string, bool) {
	if checkLocal("objstore.path", name) != nil {
		return "", false
	}
	return filepath.Join(l.dir, filepath.FromSlash(name)), true
}

// Open opens an object.
func (l *localReader) Open(ctx context.Context, name string) (Object, error) {
	if err := check(ctx, "objstore.open", name); err != nil {
		return nil, err
	}
	if err := checkLocal("objstore.open", name); err != nil {
		return nil, err
	}
	f, err := l.root.Open(name)
	if err != nil {
		return nil, localError("objstore.open", name, err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		f.Close()
		return nil, localError("objstore.open", name, err)
	}
	return &localObject{File: f, size: info.Size(), etag: etagOf(info)}, nil
}

// Stat describes an object.
func (l *localReader) Stat(ctx context.Context, name string) (Info, error) {
	if err := check(ctx, "objstore.stat", name); err != nil {
		return Info{}, err
	}
	if err := checkLocal("objstore.stat", name); err != nil {
		return Info{}, err
	}
	info, err := l.root.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return Info{}, localError("objstore.stat", name, err)
	}
	return infoOf(name, info), nil
}

// List yields objects by prefix. It walks only the directory the prefix points into.
func (l *localReader) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		start := ""
		if i := strings.LastIndexByte(prefix, '/'); i >= 0 {
			start = prefix[:i]
			if CheckName(start) != nil {
				return // such a prefix is no object's
			}
		}
		l.walk(ctx, start, prefix, yield)
	}
}

// walk yields the objects below a directory in byte order of their whole names; false means stop.
func (l *localReader) walk(ctx context.Context, dir, prefix string, yield func(Info, error) bool) bool {
	fail := func(err error) bool {
		yield(Info{}, localError("objstore.list", dir, err))
		return false
	}
	if err := ctx.Err(); err != nil {
		return fail(err)
	}
	at := dir
	if at == "" {
		at = "."
	}
	d, err := l.root.Open(at)
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	if err != nil {
		return fail(err)
	}
	entries, err := d.ReadDir(-1)
	d.Close()
	if err != nil {
		return fail(err)
	}
	// A directory sorts as its name with the slash that its objects continue with.
	key := func(e fs.DirEntry) string {
		if e.IsDir() {
			return e.Name() + "/"
		}
		return e.Name()
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(key(a), key(b)) })
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), hiddenPrefix) {
			continue
		}
		name := e.Name()
		if dir != "" {
			name = dir + "/" + name
		}
		if e.IsDir() {
			if below := name + "/"; strings.HasPrefix(below, prefix) || strings.HasPrefix(prefix, below) {
				if !l.walk(ctx, name, prefix, yield) {
					return false
				}
			}
			continue
		}
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		info, err := l.root.Stat(name)
		if err != nil || !info.Mode().IsRegular() {
			continue // deleted since, or a link that leads out
		}
		if !yield(infoOf(name, info), nil) {
			return false
		}
	}
	return true
}

type localObject struct {
	*os.File
	size int64
	etag string
}

func (o *localObject) Size() int64  { return o.size }
func (o *localObject) ETag() string { return o.etag }

// Put writes a whole object.
func (l *Local) Put(ctx context.Context, name string, data []byte, cond Condition) (Info, error) {
	w, err := l.Create(ctx, name, cond)
	if err != nil {
		return Info{}, err
	}
	if _, err := w.Write(data); err != nil {
		return Info{}, errors.Join(err, w.Abort())
	}
	return w.Commit(ctx)
}

// Create starts to stream an object.
func (l *Local) Create(ctx context.Context, name string, cond Condition) (Writer, error) {
	if err := check(ctx, "objstore.create", name); err != nil {
		return nil, err
	}
	if err := checkLocal("objstore.create", name); err != nil {
		return nil, err
	}
	dir, base := split(name)
	if err := l.makeDir(dir); err != nil {
		return nil, err
	}
	var salt [8]byte
	if _, err := rand.Read(salt[:]); err != nil {
		return nil, localError("objstore.create", name, err)
	}
	temp := join(dir, hiddenPrefix+"tmp-"+hex.EncodeToString(salt[:])+"-"+clipName(base))
	f, err := l.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, localError("objstore.create", name, err)
	}
	return &localWriter{l: l, f: f, name: name, temp: temp, cond: cond}, nil
}

// Delete removes an object.
func (l *Local) Delete(ctx context.Context, name string) error {
	if err := check(ctx, "objstore.delete", name); err != nil {
		return err
	}
	if err := checkLocal("objstore.delete", name); err != nil {
		return err
	}
	if err := l.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return localError("objstore.delete", name, err)
	}
	// Directories that became empty go too, as they mean nothing here.
	for dir, _ := split(name); dir != ""; dir, _ = split(dir) {
		if l.root.Remove(dir) != nil {
			break
		}
	}
	return nil
}

// makeDir creates the directory of an object and syncs each parent that got a new entry.
func (l *Local) makeDir(dir string) error {
	if dir == "" {
		return nil
	}
	if _, err := l.root.Stat(dir); err == nil {
		return nil
	}
	parent, _ := split(dir)
	if err := l.makeDir(parent); err != nil {
		return err
	}
	if err := l.root.Mkdir(dir, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return localError("objstore.create", dir, err)
	}
	return l.syncDir(parent)
}

func (l *Local) syncDir(dir string) error {
	if l.noSync {
		return nil
	}
	if dir == "" {
		dir = "."
	}
	d, err := l.root.Open(dir)
	if err != nil {
		return localError("objstore.sync", dir, err)
	}
	defer d.Close()
	return localError("objstore.sync", dir, d.Sync())
}

type localWriter struct {
	l          *Local
	f          *os.File
	name, temp string
	cond       Condition
}

func (w *localWriter) Write(p []byte) (int, error) {
	n, err := w.f.Write(p)
	return n, localError("objstore.write", w.name, err)
}

func (w *localWriter) Abort() error {
	w.f.Close()
	if err := w.l.root.Remove(w.temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return localError("objstore.abort", w.name, err)
	}
	return nil
}

func (w *localWriter) Commit(ctx context.Context) (Info, error) {
	info, err := w.commit(ctx)
	if err != nil {
		return Info{}, errors.Join(err, w.Abort())
	}
	return info, nil
}

func (w *localWriter) commit(ctx context.Context) (Info, error) {
	if err := ctx.Err(); err != nil {
		return Info{}, errs.Wrap(errs.Canceled, "objstore.commit", err, errs.On(w.name))
	}
	if !w.l.noSync {
		if err := w.f.Sync(); err != nil {
			return Info{}, localError("objstore.sync", w.name, err)
		}
	}
	info, err := w.f.Stat()
	if err != nil {
		return Info{}, localError("objstore.commit", w.name, err)
	}
	if err := w.f.Close(); err != nil {
		return Info{}, localError("objstore.commit", w.name, err)
	}
	if err := w.publish(); err != nil {
		return Info{}, err
	}
	dir, _ := split(w.name)
	if err := w.l.syncDir(dir); err != nil {
		return Info{}, err
	}
	return infoOf(w.name, info), nil
}

func (w *localWriter) publish() error {
	switch {
	case w.cond.IfAbsent:
		if err := w.l.root.Link(w.temp, w.name); err != nil {
			if errors.Is(err, fs.ErrExist) {
				return exists(w.name)
			}
			return localError("objstore.commit", w.name, err)
		}
		return localError("objstore.commit", w.name, w.l.root.Remove(w.temp))
	case w.cond.IfMatch != "":
		unlock, err := w.l.lock()
		if err != nil {
			return err
		}
		defer unlock()
		info, err := w.l.root.Stat(w.name)
		if err != nil || etagOf(info) != w.cond.IfMatch {
			return changed(w.name)
		}
	}
	return localError("objstore.commit", w.name, w.l.root.Rename(w.temp, w.name))
}

// lock excludes every other IfMatch writer of this directory, in this process and in others.
func (l *Local) lock() (unlock func(), err error) {
	f, err := l.root.OpenFile(hiddenPrefix+"lock", os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, localError("objstore.lock", l.dir, err)
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, localError("objstore.lock", l.dir, err)
	}
	return func() { f.Close() }, nil
}

// checkLocal keeps objects away from the store's own files.
func checkLocal(op, name string) error {
	for part := range strings.SplitSeq(name, "/") {
		if strings.HasPrefix(part, hiddenPrefix) {
			return errs.New(errs.Invalid, op, "names that begin with "+hiddenPrefix+" are reserved", errs.On(name))
		}
	}
	return nil
}

func split(name string) (dir, base string) {
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		return name[:i], name[i+1:]
	}
	return "", name
}

func join(dir, base string) string {
	if dir == "" {
		return base
	}
	return dir + "/" + base
}

func clipName(s string) string {
	if len(s) > 100 {
		return s[:100]
	}
	return s
}

func infoOf(name string, i fs.FileInfo) Info {
	return Info{Name: name, Size: i.Size(), ETag: etagOf(i), ModTime: i.ModTime()}
}

// etagOf names a version of a file: every write makes a new inode, so inode, size and time together do not repeat.
func etagOf(i fs.FileInfo) string {
	var inode uint64
	if s, ok := i.Sys().(*syscall.Stat_t); ok {
		inode = s.Ino
	}
	return fmt.Sprintf("%x-%x-%x", inode, i.Size(), i.ModTime().UnixNano())
}

// localError classifies an error of the file system; nil stays nil.
func localError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	var e *errs.Error
	if errors.As(err, &e) {
		return err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return notFound(op, name)
	case errors.Is(err, fs.ErrExist):
		return errs.Wrap(errs.Exists, op, err, errs.On(name))
	case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.EROFS):
		return errs.Wrap(errs.Denied, op, err, errs.On(name),
			errs.Hint("check the owner and the mode of the directory, or open the warehouse read-only"))
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return errs.Wrap(errs.Exhausted, op, err, errs.On(name), errs.Hint("free disk space or raise the quota, then try again"))
	case strings.Contains(err.Error(), "path escapes from parent"):
		return errs.Wrap(errs.Denied, op, err, errs.On(name), errs.Hint("a symbolic link leads out of the store"))
	}
	return errs.Wrap(errs.Unavailable, op, err, errs.On(name))
}
