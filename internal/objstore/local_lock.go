package objstore

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/overlakedb/overlake/internal/errs"
)

// The store's own files.
const (
	ownDir   = reserved          // hidden from List; no name may contain it
	tempDir  = reserved + "/tmp" // objects on their way, one file each
	lockFile = reserved + "/lock"
)

// lock excludes every other writer that replaces or deletes, in this process and in others. Locks are flock(2): they end
// with their process. IfAbsent writers need none, because the file system itself lets only one of them create a name.
func (l *Local) lock(ctx context.Context) (unlock func(), err error) {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, errs.Wrap(errs.Canceled, "objstore.lock", ctx.Err(), errs.On(l.dir))
	}
	l.step("lock " + lockFile)
	f, err := l.lockShared(ctx)
	if err != nil {
		<-l.turn
		return nil, err
	}
	return func() {
		l.step("unlock " + lockFile)
		f.Close()
		<-l.turn
	}, nil
}

// lockShared takes the lock that processes share.
func (l *Local) lockShared(ctx context.Context) (*os.File, error) {
	for {
		f, err := l.root.OpenFile(lockFile, os.O_RDWR|os.O_CREATE, 0o666)
		if isAbsent(err) {
			if err := l.root.MkdirAll(ownDir, 0o777); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		err = tryLock(f)
		if errors.Is(err, unix.EWOULDBLOCK) {
			// Another process has it, for as long as its kernel call for a rename takes, or until somebody lets it go on: so
			// the wait is a thread of its own that the context can leave behind.
			got := make(chan error, 1)
			go func() { got <- flock(f, unix.LOCK_EX) }()
			select {
			case err = <-got:
			case <-ctx.Done():
				go func() { <-got; f.Close() }()
				return nil, errs.Wrap(errs.Canceled, "objstore.lock", ctx.Err(), errs.On(l.dir))
			}
		}
		if err != nil {
			f.Close()
			return nil, err
		}
		if l.isAt(f, lockFile) {
			return f, nil
		}
		f.Close() // somebody removed the file while we waited; the lock is a new one now
	}
}

// isAt reports whether an open file is still the one at a path.
func (l *Local) isAt(f *os.File, path string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := l.root.Lstat(path)
	return err == nil && os.SameFile(a, b)
}

func tryLock(f *os.File) error { return flock(f, unix.LOCK_EX|unix.LOCK_NB) }

func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// linked reports whether an open file still has a name.
func linked(f *os.File) bool {
	info, err := f.Stat()
	if err != nil {
		return false
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	return !ok || s.Nlink > 0
}

// Swept is what a sweep removed.
type Swept struct {
	Files int
	Bytes int64
}

// Sweeper is implemented by stores in which a process that dies leaves files behind.
type Sweeper interface {
	// Sweep removes what writers left that did not live to commit or abort. It takes nothing from living writers, in
	// whatever process, and may run at any time.
	Sweep(ctx context.Context) (Swept, error)
}

// Sweep removes temporary files whose writers are dead: a living writer holds the lock of its file from just after its
// creation until it is published or removed, and the kernel drops the lock of a dead one. A writer that is swept between
// creating and locking sees that its file lost its name and makes another.
func (l *Local) Sweep(ctx context.Context) (Swept, error) {
	const op = "objstore.sweep"
	var swept Swept
	tmp, err := openDirectory(l.root, tempDir)
	if isAbsent(err) {
		return swept, nil
	}
	if err != nil {
		return swept, localError(op, tempDir, err)
	}
	defer tmp.Close()
	names, err := tmp.Readdirnames(-1)
	if err != nil {
		return swept, localError(op, tempDir, err)
	}
	for _, base := range names {
		if err := ctx.Err(); err != nil {
			return swept, errs.Wrap(errs.Canceled, op, err, errs.On(l.dir))
		}
		if !isTempName(base) {
			continue
		}
		size, err := l.sweepOne(tmp, base)
		switch {
		case errors.Is(err, unix.EWOULDBLOCK), errors.Is(err, unix.ENOENT), errors.Is(err, unix.ELOOP):
			continue // alive, gone, or not ours
		case err != nil:
			return swept, localError(op, tempDir+"/"+base, err)
		}
		swept.Files++
		swept.Bytes += size
	}
	return swept, nil
}

func (l *Local) sweepOne(tmp *os.File, base string) (int64, error) {
	fd, err := unix.Openat(int(tmp.Fd()), base, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	f := os.NewFile(uintptr(fd), base)
	defer f.Close()
	if err := tryLock(f); err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if !l.isAt(f, tempDir+"/"+base) {
		return 0, unix.ENOENT // published or removed between open and lock
	}
	return info.Size(), unix.Unlinkat(int(tmp.Fd()), base, 0)
}

// isTempName recognises the names that localWriter makes: 16 hexadecimal digits.
func isTempName(s string) bool {
	return len(s) == 16 && strings.Trim(s, "0123456789abcdef") == ""
}
