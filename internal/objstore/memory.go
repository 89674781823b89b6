package objstore

import (
	"bytes"
	"context"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/overlakedb/overlake/internal/errs"
)

// Memory is a store in memory: for tests and for embedded use that needs no durability. It takes as much memory as is
// put into it; NewQuota bounds that.
type Memory struct {
	name string

	mu      sync.RWMutex
	objects map[string]*memoryObject
	version int64
}

type memoryObject struct {
	info Info
	data []byte // never changed once stored
}

// NewMemory returns an empty store; the name only shows in its location mem://name.
func NewMemory(name string) *Memory {
	return &Memory{name: name, objects: map[string]*memoryObject{}}
}

// Location is mem://name.
func (m *Memory) Location() string { return "mem://" + m.name }

// Open opens an object.
func (m *Memory) Open(ctx context.Context, name string) (Object, error) {
	o, err := m.find(ctx, "objstore.open", name)
	if err != nil {
		return nil, err
	}
	return openMemory{r: bytes.NewReader(o.data), etag: o.info.ETag}, nil
}

// Stat describes an object.
func (m *Memory) Stat(ctx context.Context, name string) (Info, error) {
	o, err := m.find(ctx, "objstore.stat", name)
	if err != nil {
		return Info{}, err
	}
	return o.info, nil
}

// Get reads a part of an object.
func (m *Memory) Get(ctx context.Context, name string, off, most int64) ([]byte, Info, error) {
	o, err := m.find(ctx, "objstore.get", name)
	if err != nil {
		return nil, Info{}, err
	}
	if off < 0 || most < 0 {
		return nil, Info{}, errs.Newf(errs.Invalid, "objstore.get", "%d bytes from %d on are no part of an object", most, off)
	}
	off = min(off, o.info.Size)
	return bytes.Clone(o.data[off : off+min(most, o.info.Size-off)]), o.info, nil
}

func (m *Memory) find(ctx context.Context, op, name string) (*memoryObject, error) {
	if err := check(ctx, op, name); err != nil {
		return nil, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	o := m.objects[name]
	if o == nil {
		return nil, notFound(op, name)
	}
	return o, nil
}

// List yields objects by prefix.
func (m *Memory) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		var infos []Info
		m.mu.RLock()
		for name, o := range m.objects {
			if strings.HasPrefix(name, prefix) {
				infos = append(infos, o.info)
			}
		}
		m.mu.RUnlock()
		slices.SortFunc(infos, func(a, b Info) int { return strings.Compare(a.Name, b.Name) })
		for i := 0; ; i++ {
			if err := ctx.Err(); err != nil {
				yield(Info{}, errs.Wrap(errs.Canceled, "objstore.list", err, errs.On(prefix)))
				return
			}
			if i == len(infos) || !yield(infos[i], nil) {
				return
			}
		}
	}
}

// Put stores an object.
func (m *Memory) Put(ctx context.Context, name string, data []byte, cond Condition) (Info, error) {
	if err := check(ctx, "objstore.put", name); err != nil {
		return Info{}, err
	}
	if err := cond.check("objstore.put", name); err != nil {
		return Info{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.judge(name, cond); err != nil {
		return Info{}, err
	}
	return m.store(name, data), nil
}

// judge says whether a condition holds now; the caller holds mu.
func (m *Memory) judge(name string, cond Condition) error {
	old := m.objects[name]
	switch {
	case cond.IfAbsent && old != nil:
		return exists(name)
	case cond.IfMatch != "" && (old == nil || old.info.ETag != cond.IfMatch):
		return changed(name)
	}
	return nil
}

// store sets an object to a copy of data; the caller holds mu.
func (m *Memory) store(name string, data []byte) Info {
	m.version++
	o := &memoryObject{data: bytes.Clone(data), info: Info{
		Name: name, Size: int64(len(data)), ETag: strconv.FormatInt(m.version, 10), ModTime: time.Now(),
	}}
	m.objects[name] = o
	return o.info
}

// Create streams an object; its bytes are held in memory until Commit.
func (m *Memory) Create(ctx context.Context, name string, cond Condition) (Writer, error) {
	return newMemoryWriter(ctx, name, cond, m.Put)
}

// Delete removes an object.
func (m *Memory) Delete(ctx context.Context, name string) error {
	if err := check(ctx, "objstore.delete", name); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, name)
	return nil
}

// openMemory keeps the reader in a field: embedded, its Reset would let a caller change what is open.
type openMemory struct {
	r    *bytes.Reader
	etag string
}

func (o openMemory) ReadAt(p []byte, off int64) (int, error) {
	n, err := o.r.ReadAt(p, off)
	if off < 0 {
		err = errs.Wrap(errs.Invalid, "objstore.read", err)
	}
	return n, err
}
func (o openMemory) Size() int64  { return o.r.Size() }
func (o openMemory) Close() error { return nil }
func (o openMemory) ETag() string { return o.etag }
func (o openMemory) Near() bool   { return true }

// memoryWriter gathers an object and puts it at Commit.
type memoryWriter struct {
	ctx   context.Context // of Create: binds Write
	name  string
	cond  Condition
	put   func(context.Context, string, []byte, Condition) (Info, error)
	buf   bytes.Buffer
	ended bool
}

func newMemoryWriter(ctx context.Context, name string, cond Condition,
	put func(context.Context, string, []byte, Condition) (Info, error)) (Writer, error) {
	if err := check(ctx, "objstore.create", name); err != nil {
		return nil, err
	}
	if err := cond.check("objstore.create", name); err != nil {
		return nil, err
	}
	return &memoryWriter{ctx: ctx, name: name, cond: cond, put: put}, nil
}

func (w *memoryWriter) Write(p []byte) (int, error) {
	if w.ended {
		return 0, spent("objstore.write", w.name)
	}
	if err := w.ctx.Err(); err != nil {
		return 0, errs.Wrap(errs.Canceled, "objstore.write", err, errs.On(w.name))
	}
	return w.buf.Write(p)
}

func (w *memoryWriter) Commit(ctx context.Context) (Info, error) {
	if w.ended {
		return Info{}, spent("objstore.commit", w.name)
	}
	w.ended = true
	defer func() { w.buf = bytes.Buffer{} }()
	return w.put(ctx, w.name, w.buf.Bytes(), w.cond)
}

func (w *memoryWriter) Abort() error {
	w.ended = true
	w.buf = bytes.Buffer{}
	return nil
}
