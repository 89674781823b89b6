package objstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/overlakedb/overlake/internal/errs"
)

// localReader is the reading half of a store in a directory. os.Root keeps every path, symbolic links included, inside.
type localReader struct {
	dir  string
	root *os.Root
}

// OpenLocalReadOnly opens an existing directory without any way to write, not even its own files.
func OpenLocalReadOnly(dir string) (Reader, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, localError("objstore.open", dir, err)
	}
	r, err := openReader(abs)
	if err != nil {
		return nil, err
	}
	return r, nil
}

func openReader(abs string) (*localReader, error) {
	root, err := os.OpenRoot(abs)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errs.Wrap(errs.NotFound, "objstore.open", err, errs.On(abs))
	}
	if err != nil {
		return nil, localError("objstore.open", abs, err)
	}
	return &localReader{dir: abs, root: root}, nil
}

// Location is file:// and the absolute directory.
func (l *localReader) Location() string { return "file://" + l.dir }

// LocalPath is the file behind a name; false when it is reached by a symbolic link that leads out of the directory.
func (l *localReader) LocalPath(name string) (string, bool) {
	if CheckName(name) != nil {
		return "", false
	}
	if _, err := l.root.Stat(name); err != nil && !isAbsent(err) {
		return "", false
	}
	return filepath.Join(l.dir, filepath.FromSlash(name)), true
}

// Open opens an object.
func (l *localReader) Open(ctx context.Context, name string) (Object, error) {
	if err := check(ctx, "objstore.open", name); err != nil {
		return nil, err
	}
	f, err := l.root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe of that name must not hold us up
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
	return &localObject{f: f, name: name, size: info.Size(), etag: infoOf(name, info).ETag}, nil
}

// Stat describes an object.
func (l *localReader) Stat(ctx context.Context, name string) (Info, error) {
	if err := check(ctx, "objstore.stat", name); err != nil {
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

// List yields objects by prefix. It reads only directories that can hold such names, one level at a time, and holds the
// entries of the directories it is in. It does not follow symbolic links to directories, so nothing is listed twice or
// for ever; links to files are listed when they stay inside.
func (l *localReader) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		start := ""
		if i := strings.LastIndexByte(prefix, '/'); i >= 0 {
			start = prefix[:i]
			if CheckName(start) != nil {
				return // no object has such a prefix
			}
			for i := range len(start) + 1 {
				if i < len(start) && start[i] != '/' {
					continue
				}
				info, err := l.root.Lstat(start[:i])
				if isAbsent(err) || err == nil && !info.IsDir() {
					return
				}
				if err != nil {
					yield(Info{}, localError("objstore.list", start[:i], err))
					return
				}
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
	d, err := openDirectory(l.root, dir)
	if isAbsent(err) {
		return true // removed since
	}
	if err != nil {
		return fail(err)
	}
	defer d.Close()
	entries, err := d.ReadDir(-1)
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
		name := join(dir, e.Name())
		if e.IsDir() {
			below := name + "/"
			if CheckName(name) == nil && (strings.HasPrefix(below, prefix) || strings.HasPrefix(prefix, below)) {
				if !l.walk(ctx, name, prefix, yield) {
					return false
				}
			}
			continue
		}
		if !strings.HasPrefix(name, prefix) || CheckName(name) != nil {
			continue
		}
		if err := ctx.Err(); err != nil {
			return fail(err)
		}
		info, ok, err := l.entry(d, e.Name(), name)
		if err != nil {
			return fail(err)
		}
		if ok && !yield(info, nil) {
			return false
		}
	}
	return true
}

// entry describes a file of an open directory; false when it is gone since, no plain file, or a link that leads out.
func (l *localReader) entry(d *os.File, base, name string) (Info, bool, error) {
	var st unix.Stat_t
	err := unix.Fstatat(int(d.Fd()), base, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil && uint32(st.Mode)&unix.S_IFMT == unix.S_IFLNK {
		info, err := l.root.Stat(name)
		switch {
		case err == nil:
			return infoOf(name, info), info.Mode().IsRegular(), nil
		case isAbsent(err), isEscape(err), errors.Is(err, unix.ELOOP):
			return Info{}, false, nil
		}
		return Info{}, false, err
	}
	if isAbsent(err) {
		return Info{}, false, nil
	}
	if err != nil {
		return Info{}, false, err
	}
	mtime := time.Unix(st.Mtim.Unix())
	info := Info{Name: name, Size: st.Size, ETag: etag(st.Ino, st.Size, mtime), ModTime: mtime}
	return info, uint32(st.Mode)&unix.S_IFMT == unix.S_IFREG, nil
}

// localObject keeps the file in a field: embedded, its Chmod and Truncate would be methods of something that is only to
// be read.
type localObject struct {
	f    *os.File
	name string
	size int64
	etag string
}

func (o *localObject) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, errs.New(errs.Invalid, "objstore.read", "negative offset", errs.On(o.name))
	}
	n, err := o.f.ReadAt(p, off)
	if err != nil && !errors.Is(err, io.EOF) {
		err = localError("objstore.read", o.name, err)
	}
	return n, err
}
func (o *localObject) Close() error { return localError("objstore.close", o.name, o.f.Close()) }
func (o *localObject) Size() int64  { return o.size }
func (o *localObject) ETag() string { return o.etag }
func (o *localObject) Near() bool   { return true }

func infoOf(name string, i fs.FileInfo) Info {
	return Info{Name: name, Size: i.Size(), ETag: etag(inodeOf(i), i.Size(), i.ModTime()), ModTime: i.ModTime()}
}

func inodeOf(i fs.FileInfo) uint64 {
	if s, ok := i.Sys().(*syscall.Stat_t); ok {
		return s.Ino
	}
	return 0
}

// etag names a version of a file by inode, size and time of change in nanoseconds. A hash of the content would make Stat
// and List read every byte, and an extended attribute is lost by most ways to copy a file and missing on some file
// systems. Inodes are used again at once and the kernel's clock for files ticks only every few milliseconds, so neither
// tells two quick versions apart; therefore our writers set the time themselves, to the nanosecond and always later than
// that of the version they replace (see localWriter.publish).
func etag(inode uint64, size int64, mtime time.Time) string {
	return fmt.Sprintf("%x-%x-%x", inode, size, mtime.UnixNano())
}

// openDirectory opens a directory of a store; the empty name is the store's own.
func openDirectory(root *os.Root, dir string) (*os.File, error) {
	if dir == "" {
		dir = "."
	}
	return root.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
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

// isAbsent reports errors that say there is nothing at a path: no entry, or a file where a directory would have to be.
func isAbsent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
}

// isEscape reports os.Root's refusal of a path that leads out; the standard library has no value for it.
func isEscape(err error) bool {
	return err != nil && strings.Contains(err.Error(), "path escapes from parent")
}

// localError classifies an error of the file system; nil stays nil and a classified error stays as it is.
func localError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	var e *errs.Error
	if errors.As(err, &e) {
		return err
	}
	wrap := func(kind errs.Kind, hint string) error {
		return errs.Wrap(kind, op, err, errs.On(name), errs.Hint("%s", hint))
	}
	switch {
	case isAbsent(err):
		return notFound(op, name)
	case errors.Is(err, fs.ErrExist):
		return wrap(errs.Exists, "")
	case errors.Is(err, unix.EROFS):
		return wrap(errs.Denied, "the file system is mounted read-only: open the warehouse read-only")
	case errors.Is(err, fs.ErrPermission):
		return wrap(errs.Denied, "check the owner and the mode of the directory, or open the warehouse read-only")
	case errors.Is(err, unix.ENOSPC):
		return wrap(errs.Exhausted, "free space on the disk, then try again")
	case errors.Is(err, unix.EDQUOT):
		return wrap(errs.Exhausted, "raise the user's disk quota or delete files, then try again")
	case errors.Is(err, unix.EFBIG):
		return wrap(errs.Exhausted, "raise the limit on the size of files (ulimit -f)")
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return wrap(errs.Exhausted, "raise the limit on open files (ulimit -n)")
	case errors.Is(err, unix.ENAMETOOLONG):
		return wrap(errs.Invalid, "a part of a name may have at most 255 bytes here")
	case isEscape(err):
		return wrap(errs.Denied, "a symbolic link leads out of the store: open the directory it leads to as a store of its own")
	case errors.Is(err, unix.ELOOP):
		return wrap(errs.Denied, "symbolic links lead in a circle")
	case errors.Is(err, unix.EXDEV):
		return wrap(errs.Unsupported, "another file system is mounted inside the store: open it as a store of its own")
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOLCK), errors.Is(err, unix.ENOSYS):
		return wrap(errs.Unsupported, "the file system lacks what a store needs, such as file locks: open the warehouse read-only")
	}
	return wrap(errs.Unavailable, "")
}
