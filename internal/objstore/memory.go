package objstore

import (
	"bytes"
	"context"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/overlakedb/overlake/internal/errs"
)

// Memory is a store in memory: for tests and for embedded use that needs no durability.
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
	return &openMemory{Reader: bytes.NewReader(o.data), etag: o.info.ETag}, nil
}

// Stat describes an object.
func (m *Memory) Stat(ctx context.Context, name string) (Info, error) {
	o, err := m.find(ctx, "objstore.stat", name)
	if err != nil {
		return Info{}, err
	}
	return o.info, nil
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
		m.mu.RLock()
		var infos []Info
		for name, o := range m.objects {
			if strings.HasPrefix(name, prefix) {
				infos = append(infos, o.info)
			}
		}
		m.mu.RUnlock()
		slices.SortFunc(infos, func(a, b Info) int { return strings.Compare(a.Name, b.Name) })
		for _, i := range infos {
			if err := ctx.Err(); err != nil {
				yield(Info{}, errs.Wrap(errs.Canceled, "objstore.list", err))
				return
			}
			if !yield(i, nil) {
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
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.objects[name]
	if cond.IfAbsent && old != nil {
		return Info{}, exists(name)
	}
	if cond.IfMatch != "" && (old == nil || old.info.ETag != cond.IfMatch) {
		return Info{}, changed(name)
	}
	m.version++
	o := &memoryObject{data: bytes.Clone(data), info: Info{
		Name: name, Size: int64(len(data)), ETag: strconv.FormatInt(m.version, 10), ModTime: time.Now(),
	}}
	m.objects[name] = o
	return o.info, nil
}

// Create streams an object.
func (m *Memory) Create(ctx context.Context, name string, cond Condition) (Writer, error) {
	if err := check(ctx, "objstore.create", name); err != nil {
		return nil, err
	}
	return &memoryWriter{m: m, name: name, cond: cond}, nil
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

type openMemory struct {
	*bytes.Reader
	etag string
}

func (o *openMemory) Close() error { return nil }
func (o *openMemory) ETag() string { return o.etag }

type memoryWriter struct {
	m    *Memory
	name string
	cond Condition
	buf  bytes.Buffer
}

func (w *memoryWriter) Write(p []byte) (int, error) { return w.buf.Write(p) }

func (w *memoryWriter) Commit(ctx context.Context) (Info, error) {
	return w.m.Put(ctx, w.name, w.buf.Bytes(), w.cond)
}

func (w *memoryWriter) Abort() error {
	w.buf = bytes.Buffer{}
	return nil
}

func check(ctx context.Context, op, name string) error {
	if err := ctx.Err(); err != nil {
		return errs.Wrap(errs.Canceled, op, err, errs.On(name))
	}
	return CheckName(name)
}

func notFound(op, name string) error {
	return errs.New(errs.NotFound, op, "no such object", errs.On(name))
}

func exists(name string) error {
	return errs.New(errs.Exists, "objstore.put", "the object exists already", errs.On(name))
}

func changed(name string) error {
	return errs.New(errs.Conflict, "objstore.put", "the object was changed by somebody else", errs.On(name))
}

var _ io.ReaderAt = (*openMemory)(nil)
