package engine

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"

	"github.com/overlakedb/overlake/internal/errs"
)

// linked brings files in where the linker's wrapping is not: each is a hard link in a private directory inside the spill
// directory, which goes with it. (The engine follows symbolic links before it judges a path.) Files that Go reads, and
// local ones on another device, are copied there when they are registered, so this way costs space and time.
type linked struct {
	root string
	last atomic.Int64
}

func newLinked(parent string) (*linked, error) {
	root, err := os.MkdirTemp(parent, "overlake-files-")
	if err != nil {
		return nil, errs.Wrap(errs.KindOf(err), "engine.open", err, errs.Hint("name a spill directory that can be written"))
	}
	return &linked{root: root}, nil
}

func (l *linked) dir() string { return l.root + string(filepath.Separator) }

func (l *linked) next(ext string) string {
	return filepath.Join(l.root, strconv.FormatInt(l.last.Add(1), 36)+ext)
}

func (l *linked) add(ext, local string, writable bool) (string, func(), error) {
	path := l.next(ext)
	remove := func() { _ = os.Remove(path) }
	if writable {
		// The engine truncates and fills the file that both names stand for.
		out, err := os.OpenFile(local, os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return "", nil, err
		}
		if err := out.Close(); err != nil {
			return "", nil, err
		}
	}
	err := os.Link(local, path)
	if err == nil {
		return path, remove, nil
	}
	if writable {
		return "", nil, errs.Wrap(errs.Unsupported, "engine.file", err,
			errs.Hint("put the spill directory and the files that are written on one device"))
	}
	in, err := os.Open(local)
	if err != nil {
		return "", nil, err
	}
	defer in.Close()
	if err := copyTo(path, in); err != nil {
		return "", nil, err
	}
	return path, remove, nil
}

func copyTo(path string, in io.Reader) error {
	out, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Close()); err != nil {
		_ = os.Remove(path)
	}
	return err
}

func (l *linked) addReader(ext string, _ int64, f *file) (string, func(), error) {
	path := l.next(ext)
	if err := copyTo(path, io.NewSectionReader(cancelable{f}, 0, f.size)); err != nil {
		return "", nil, err
	}
	return path, func() { _ = os.Remove(path) }, nil
}

// cancelable reads a file under its context.
type cancelable struct{ f *file }

func (c cancelable) ReadAt(p []byte, at int64) (int, error) {
	if at >= c.f.size {
		return 0, io.EOF
	}
	n := min(int64(len(p)), c.f.size-at)
	if err := c.f.readAt(p[:n], at); err != nil {
		return 0, err
	}
	if n < int64(len(p)) {
		return int(n), io.EOF
	}
	return int(n), nil
}
