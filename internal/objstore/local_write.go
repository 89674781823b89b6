package objstore

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/overlakedb/overlake/internal/errs"
)

// Local is a store in a directory, which several processes may use at once. An object is a plain file below it; the
// store's own files are in the hidden directory .overlake (docs/format/local-store.md).
//
// Writing an object, in the order that makes O1 to O3 hold:
//
//  1. write a new file .overlake/tmp/<random>, under a lock that tells the living from leftovers
//  2. set its time, fsync it
//  3. make the object's directories where missing, and fsync the parent of each that this process has not seen durable
//  4. publish: rename without replacing (IfAbsent), or, under the lock of the store, compare the ETag (IfMatch), make the
//     time later than that of the old version, and rename
//  5. fsync the object's directory
//
// A process that dies before 4 leaves a temporary file, which List does not show and Sweep removes. One that dies after
// 4 leaves the object.
type Local struct {
	localReader
	noSync bool
	sweep  sync.Once
	turn   chan struct{} // one of this process waits for the store's lock at a time

	mu   sync.Mutex
	dirs map[string]uint64 // directories known to be durable: name to inode

	trace func(step string) // tests see every step before it is made
}

// LocalOptions configure a Local store. The zero value is usable.
type LocalOptions struct {
	// Quota bounds the bytes of all objects, as NewQuota does; 0 is no bound.
	Quota int64
	// NoSync leaves out every fsync: for tests and throw-away data only, since O2 then holds for the death of a process
	// but not for the loss of power.
	NoSync bool
}

// maxDurable bounds the directories whose durability is remembered; beyond it all are forgotten, which costs an fsync
// each when they are next used.
const maxDurable = 4096

// OpenLocal opens a directory as a store and creates it when it is missing. A directory that cannot be written opens
// too; its writes are Denied. The store is a LocalPather and a Sweeper.
func OpenLocal(dir string, opts LocalOptions) (Store, error) {
	const op = "objstore.open"
	if opts.Quota < 0 {
		return nil, errs.Newf(errs.Invalid, op, "the quota is negative: %d", opts.Quota)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, localError(op, dir, err)
	}
	if err := makeRoot(abs, opts.NoSync); err != nil {
		return nil, localError(op, abs, err)
	}
	r, err := openReader(abs)
	if err != nil {
		return nil, err
	}
	l := &Local{localReader: *r, noSync: opts.NoSync, turn: make(chan struct{}, 1), dirs: map[string]uint64{}}
	if opts.Quota > 0 {
		return NewQuota(context.Background(), l, opts.Quota)
	}
	return l, nil
}

// makeRoot creates a directory with its parents and makes each new entry durable.
func makeRoot(abs string, noSync bool) error {
	if info, err := os.Stat(abs); err == nil && info.IsDir() {
		return nil
	} else if err == nil {
		return errs.New(errs.Invalid, "objstore.open", "the warehouse is a file, not a directory", errs.On(abs))
	} else if !errors.Is(err, fs.ErrNotExist) || filepath.Dir(abs) == abs {
		return err
	}
	parent := filepath.Dir(abs)
	if err := makeRoot(parent, noSync); err != nil {
		return err
	}
	if err := os.Mkdir(abs, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if noSync {
		return nil
	}
	d, err := os.Open(parent)
	if err != nil {
		return err
	}
	defer d.Close()
	return fsyncDir(d)
}

func fsyncDir(d *os.File) error {
	err := d.Sync()
	if errors.Is(err, unix.EINVAL) {
		return nil // a file system whose directories need no fsync, and that says so
	}
	return err
}

func (l *Local) step(what string) {
	if l.trace != nil {
		l.trace(what)
	}
}

// Put writes a whole object.
func (l *Local) Put(ctx context.Context, name string, data []byte, cond Condition) (Info, error) {
	w, err := l.Create(ctx, name, cond)
	if err != nil {
		return Info{}, err
	}
	if _, err := w.Write(data); err != nil {
		return Info{}, also(err, w.Abort())
	}
	return w.Commit(ctx)
}

// Create starts to stream an object.
func (l *Local) Create(ctx context.Context, name string, cond Condition) (Writer, error) {
	const op = "objstore.create"
	if err := check(ctx, op, name); err != nil {
		return nil, err
	}
	if err := cond.check(op, name); err != nil {
		return nil, err
	}
	// Once a process, what dead ones left is removed. That is a courtesy: an error here hinders no write, and who wants to
	// know it calls Sweep.
	l.sweep.Do(func() { _, _ = l.Sweep(ctx) })
	w := &localWriter{ctx: ctx, l: l, name: name, cond: cond}
	if err := w.open(); err != nil {
		return nil, writeError(op, name, err)
	}
	return w, nil
}

// localWriter is an object on its way. Its file stays open, and with that locked, until it is published or removed.
type localWriter struct {
	ctx   context.Context // of Create: binds Write
	l     *Local
	name  string
	cond  Condition
	tmp   *os.File // the directory of temporary files
	base  string   // the file's name in it
	f     *os.File
	ended bool
}

// open creates the temporary file and takes its lock. A sweeper may come between the two; then there is another try.
func (w *localWriter) open() error {
	for range 100 {
		tmp, err := openDirectory(w.l.root, tempDir)
		if isAbsent(err) {
			if err := w.l.root.MkdirAll(tempDir, 0o777); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		var salt [8]byte
		if _, err := rand.Read(salt[:]); err != nil {
			tmp.Close()
			return err
		}
		base := hex.EncodeToString(salt[:])
		w.l.step("create " + tempDir)
		fd, err := unix.Openat(int(tmp.Fd()), base, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o666)
		if err != nil {
			tmp.Close()
			if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.EINTR) || errors.Is(err, unix.ENOENT) {
				continue
			}
			return err
		}
		w.tmp, w.base, w.f = tmp, base, os.NewFile(uintptr(fd), filepath.Join(w.l.dir, tempDir, base))
		w.l.step("lock " + tempDir)
		err = tryLock(w.f)
		if err == nil && linked(w.f) {
			return nil
		}
		w.discard()
		if err != nil && !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
	}
	return errs.New(errs.Unavailable, "objstore.create", "the directory for temporary files is removed again and again", errs.On(w.l.dir))
}

func (w *localWriter) Write(p []byte) (int, error) {
	if w.ended {
		return 0, spent("objstore.write", w.name)
	}
	if err := w.ctx.Err(); err != nil {
		return 0, errs.Wrap(errs.Canceled, "objstore.write", err, errs.On(w.name))
	}
	w.l.step("write " + tempDir)
	n, err := w.f.Write(p)
	return n, localError("objstore.write", w.name, err)
}

func (w *localWriter) Abort() error {
	if w.ended {
		return nil
	}
	w.ended = true
	return localError("objstore.abort", w.name, w.discard())
}

// discard removes the temporary file and lets go of it, in this order: a file is never unlocked while it has its name.
func (w *localWriter) discard() error {
	w.l.step("remove " + tempDir)
	err := unix.Unlinkat(int(w.tmp.Fd()), w.base, 0)
	if errors.Is(err, unix.ENOENT) {
		err = nil
	}
	w.close()
	return err
}

// close ends the use of the files. Their errors say nothing any more: what had to be durable was synced.
func (w *localWriter) close() {
	_ = w.f.Close()
	_ = w.tmp.Close()
}

func (w *localWriter) Commit(ctx context.Context) (Info, error) {
	const op = "objstore.commit"
	if w.ended {
		return Info{}, spent(op, w.name)
	}
	w.ended = true
	info, dir, err := w.commit(ctx)
	if err != nil {
		return Info{}, also(writeError(op, w.name, err), localError(op, w.name, w.discard()))
	}
	defer dir.Close()
	w.close()
	if !w.l.noSync {
		w.l.step("fsync " + dirOf(w.name))
		if err := fsyncDir(dir); err != nil {
			return Info{}, errs.Wrap(errs.Unavailable, op, err, errs.On(w.name),
				errs.Hint("the object is there but may not survive a loss of power"))
		}
	}
	return info, nil
}

// commit does all up to the publication and returns the directory that is still to be synced.
func (w *localWriter) commit(ctx context.Context) (Info, *os.File, error) {
	if err := ctx.Err(); err != nil {
		return Info{}, nil, err
	}
	if err := w.seal(time.Now()); err != nil {
		return Info{}, nil, err
	}
	parent, base := split(w.name)
	for range 100 {
		if err := ctx.Err(); err != nil {
			return Info{}, nil, err
		}
		dir, err := w.l.ensureDir(parent)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a Delete removed the empty directory again
		}
		if errors.Is(err, unix.ENOTDIR) {
			return Info{}, nil, inTheWay(w.name, "a shorter one that this name continues")
		}
		if err != nil {
			return Info{}, nil, err
		}
		info, err := w.publish(ctx, dir, base)
		if err == nil {
			return info, dir, nil
		}
		dir.Close()
		if !errors.Is(err, unix.ENOENT) || !linked(w.f) {
			return Info{}, nil, err
		}
	}
	return Info{}, nil, errs.New(errs.Unavailable, "objstore.commit", "the object's directory is removed again and again", errs.On(w.name))
}

// seal sets the time of the finished file and makes the file durable.
func (w *localWriter) seal(mtime time.Time) error {
	w.l.step("set time " + tempDir)
	ts, err := unix.TimeToTimespec(mtime)
	if err != nil {
		return err
	}
	if err := unix.UtimesNanoAt(int(w.tmp.Fd()), w.base, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if w.l.noSync {
		return nil
	}
	w.l.step("fsync " + tempDir)
	return w.f.Sync()
}

// publish gives the file its name. ENOENT means that the directory was removed meanwhile.
func (w *localWriter) publish(ctx context.Context, dir *os.File, base string) (Info, error) {
	var err error
	if w.cond.IfAbsent {
		w.l.step("rename without replacing to " + w.name)
		err = renameNoReplace(int(w.tmp.Fd()), w.base, int(dir.Fd()), base)
	} else {
		err = w.replace(ctx, dir, base)
	}
	switch {
	case errors.Is(err, unix.EEXIST), errors.Is(err, unix.EISDIR), errors.Is(err, unix.ENOTEMPTY):
		if info, serr := w.l.root.Lstat(w.name); serr == nil && info.IsDir() {
			return Info{}, inTheWay(w.name, "longer ones that continue this name")
		}
		return Info{}, exists(w.name)
	case err != nil:
		return Info{}, err
	}
	info, err := w.f.Stat()
	if err != nil {
		return Info{}, errs.Wrap(errs.Unavailable, "objstore.commit", err, errs.On(w.name))
	}
	return infoOf(w.name, info), nil
}

// replace puts the file in the place of an older version, or of nothing, while no other writer may.
func (w *localWriter) replace(ctx context.Context, dir *os.File, base string) error {
	unlock, err := w.l.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	w.l.step("compare " + w.name)
	old, err := w.l.root.Stat(w.name)
	if err != nil && !isAbsent(err) && (w.cond.IfMatch != "" || !isEscape(err)) {
		return err
	}
	if m := w.cond.IfMatch; m != "" && (err != nil || !old.Mode().IsRegular() || infoOf(w.name, old).ETag != m) {
		return changed(w.name)
	}
	if err == nil {
		if err := w.outlive(old.ModTime()); err != nil {
			return err
		}
	}
	w.l.step("rename to " + w.name)
	return unix.Renameat(int(w.tmp.Fd()), w.base, int(dir.Fd()), base)
}

// outlive makes the file's time later than that of the version it replaces, whose clock may have been ahead. File systems
// keep times in steps of up to two seconds.
func (w *localWriter) outlive(old time.Time) error {
	for _, ahead := range []time.Duration{1, time.Microsecond, time.Millisecond, time.Second, 4 * time.Second} {
		info, err := w.f.Stat()
		if err != nil {
			return err
		}
		if info.ModTime().After(old) {
			return nil
		}
		if err := w.seal(old.Add(ahead)); err != nil {
			return err
		}
	}
	return nil
}

// Delete removes an object, and the directories that are empty then, as they mean nothing here.
func (l *Local) Delete(ctx context.Context, name string) error {
	const op = "objstore.delete"
	if err := check(ctx, op, name); err != nil {
		return err
	}
	if info, err := l.root.Lstat(name); isAbsent(err) || err == nil && info.IsDir() {
		return nil
	} else if err != nil {
		return localError(op, name, err)
	}
	parent, base := split(name)
	dir, err := openDirectory(l.root, parent)
	if isAbsent(err) {
		return nil
	}
	if err != nil {
		return localError(op, name, err)
	}
	defer dir.Close()
	unlock, err := l.lock(ctx)
	if err != nil {
		return localError(op, name, err)
	}
	l.step("remove " + name)
	err = unix.Unlinkat(int(dir.Fd()), base, 0)
	unlock()
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return localError(op, name, err)
	}
	if !l.noSync {
		l.step("fsync " + dirOf(name))
		if err := fsyncDir(dir); err != nil {
			return localError(op, name, err)
		}
	}
	for d := parent; d != ""; d, _ = split(d) {
		if !l.prune(d) {
			break
		}
	}
	return nil
}

// prune removes a directory if it is empty. It does not touch a symbolic link to one.
func (l *Local) prune(dir string) bool {
	parent, base := split(dir)
	p, err := openDirectory(l.root, parent)
	if err != nil {
		return false
	}
	defer p.Close()
	if unix.Unlinkat(int(p.Fd()), base, unix.AT_REMOVEDIR) != nil {
		return false
	}
	l.mu.Lock()
	delete(l.dirs, dir)
	l.mu.Unlock()
	return true
}

// ensureDir opens a directory, made when missing, whose path is durable: not only directories made here are synced but
// also those found, because whoever made them may have died before its fsync, or be just about to.
func (l *Local) ensureDir(dir string) (*os.File, error) {
	d, err := openDirectory(l.root, dir)
	parent, base := split(dir)
	if errors.Is(err, fs.ErrNotExist) && dir != "" {
		p, err := l.ensureDir(parent)
		if err != nil {
			return nil, err
		}
		l.step("make directory " + dir)
		err = unix.Mkdirat(int(p.Fd()), base, 0o777)
		p.Close()
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return nil, err
		}
		if d, err = openDirectory(l.root, dir); err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, err
	}
	if l.noSync || dir == "" {
		return d, nil
	}
	info, err := d.Stat()
	if err != nil {
		d.Close()
		return nil, err
	}
	inode := inodeOf(info)
	l.mu.Lock()
	durable := l.dirs[dir] == inode
	l.mu.Unlock()
	if durable {
		return d, nil
	}
	p, err := l.ensureDir(parent)
	if err != nil {
		d.Close()
		return nil, err
	}
	defer p.Close()
	l.step("fsync " + dirOf(dir))
	if err := fsyncDir(p); err != nil {
		d.Close()
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.dirs) >= maxDurable {
		clear(l.dirs)
	}
	l.dirs[dir] = inode
	return d, nil
}

// writeError classifies an error of a write. There "not found" does not mean the object but the ground under it.
func writeError(op, name string, err error) error {
	var e *errs.Error
	if isAbsent(err) && !errors.As(err, &e) {
		return errs.Wrap(errs.Unavailable, op, err, errs.On(name), errs.Hint("the directory of the store was removed or moved"))
	}
	return localError(op, name, err)
}

// also adds the failure of a clean-up to the failure that made it necessary.
func also(err, cleanup error) error {
	if cleanup == nil {
		return err
	}
	return errors.Join(err, cleanup)
}

// dirOf is the directory of a name as traces and messages show it.
func dirOf(name string) string {
	dir, _ := split(name)
	if dir == "" {
		return "."
	}
	return dir
}

func inTheWay(name, what string) error {
	return errs.New(errs.Invalid, "objstore.put", "in a directory, a name excludes "+what, errs.On(name),
		errs.Hint("choose another name or delete the other object first"))
}
