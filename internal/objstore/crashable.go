package objstore

import (
	"context"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/overlakedb/overlake/internal/errs"
)

// CrashMode chooses how bad a crash of a Crashable is. The zero mode is the crash of a store that keeps its promises.
type CrashMode uint8

const (
	// Torn lets a write that was not yet durable leave the first half of its bytes under its name, against O1: what a
	// disk does that reports writes as done too early. Readers of pointers must find out by checksum.
	Torn CrashMode = 1 << iota
	// Unsynced makes acknowledged writes durable only at Sync, against O2, as in a local store with NoSync: each name then
	// comes back in its last durable version or in any later one, whatever happens to the other names.
	Unsynced
)

// Crashable is a memory store that can lose power. Its crash leaves what was durable: the acknowledged writes, and of the
// write in flight all or nothing by the toss of a coin; CrashMode loosens that. Streams that were not committed are lost.
// After a crash every operation, also on objects and writers that are open, is Unavailable. Restart gives the store that
// a new process finds.
type Crashable struct {
	m    *Memory
	mode CrashMode

	mu      sync.Mutex // before m.mu
	coin    *rand.Rand
	left    int // writes until the planned crash; 0 means none is planned
	crashed bool
	count   int
	pending map[string][]*memoryObject // with Unsynced: versions not durable, after the durable one; nil is absent
}

// NewCrashable returns an empty store whose coin has a seed; the modes add up.
func NewCrashable(name string, seed uint64, modes ...CrashMode) *Crashable {
	c := &Crashable{m: NewMemory(name), coin: rand.New(rand.NewPCG(seed, 1)), pending: map[string][]*memoryObject{}}
	for _, m := range modes {
		c.mode |= m
	}
	return c
}

// CrashAfter plans the crash at the n-th write from now, which is then the one in flight. A write is a Put, a Commit or a
// Delete. n below 1 plans none.
func (c *Crashable) CrashAfter(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = max(n, 0)
}

// Writes is the number of writes so far: a test runs a history once to learn how many crash points it has.
func (c *Crashable) Writes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

// Crashed reports whether the store has lost power.
func (c *Crashable) Crashed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.crashed
}

// Sync makes all acknowledged writes durable. Only mode Unsynced needs it.
func (c *Crashable) Sync() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.pending)
}

// Crash loses power now.
func (c *Crashable) Crash() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.crash()
}

// crash decides what is left; the caller holds both locks.
func (c *Crashable) crash() {
	if c.crashed {
		return
	}
	c.crashed = true
	for _, name := range slices.Sorted(maps.Keys(c.pending)) { // sorted: one seed, one outcome
		versions := c.pending[name]
		i := c.coin.IntN(len(versions))
		o := versions[i]
		if i > 0 && o != nil && c.mode&Torn != 0 && c.coin.IntN(3) == 0 {
			c.m.store(name, o.data[:len(o.data)/2])
			continue
		}
		c.set(name, o)
	}
	clear(c.pending)
}

func (c *Crashable) set(name string, o *memoryObject) {
	if o == nil {
		delete(c.m.objects, name)
	} else {
		c.m.objects[name] = o
	}
}

// Restart returns the store as a new process finds it, after a crash now if there was none.
func (c *Crashable) Restart() *Crashable {
	c.Crash()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.m.mu.RLock()
	defer c.m.mu.RUnlock()
	n := NewCrashable(c.m.name, c.coin.Uint64(), c.mode)
	maps.Copy(n.m.objects, c.m.objects)
	n.m.version = c.m.version
	return n
}

// write makes one write, or the crash that comes at it. The condition is judged in either case: a write that was to be
// refused changes nothing.
func (c *Crashable) write(ctx context.Context, op, name string, cond Condition, data []byte, remove bool) (Info, error) {
	if err := check(ctx, op, name); err != nil {
		return Info{}, err
	}
	if err := cond.check(op, name); err != nil {
		return Info{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.crashed {
		return Info{}, powerless(op, name)
	}
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.count++
	err := c.m.judge(name, cond)
	if err == nil {
		old := c.m.objects[name]
		if c.left == 1 || c.mode&Unsynced != 0 {
			if len(c.pending[name]) == 0 {
				c.pending[name] = []*memoryObject{old}
			}
		}
		if remove {
			delete(c.m.objects, name)
		} else {
			c.m.store(name, data)
		}
		if len(c.pending[name]) > 0 {
			c.pending[name] = append(c.pending[name], c.m.objects[name])
		}
	}
	if c.left > 0 {
		if c.left--; c.left == 0 {
			c.crash()
			return Info{}, powerless(op, name)
		}
	}
	if err != nil || remove {
		return Info{}, err
	}
	return c.m.objects[name].info, nil
}

func powerless(op, name string) error {
	return errs.New(errs.Unavailable, op, "injected fault: the store lost power", errs.On(name))
}

// Location is mem://name.
func (c *Crashable) Location() string { return c.m.Location() }

// Open opens an object.
func (c *Crashable) Open(ctx context.Context, name string) (Object, error) {
	if c.Crashed() {
		return nil, powerless("objstore.open", name)
	}
	o, err := c.m.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	return &crashableObject{Object: o, c: c, name: name}, nil
}

type crashableObject struct {
	Object
	c    *Crashable
	name string
}

func (o *crashableObject) ReadAt(p []byte, off int64) (int, error) {
	if o.c.Crashed() {
		return 0, powerless("objstore.read", o.name)
	}
	return o.Object.ReadAt(p, off)
}

// Stat describes an object.
func (c *Crashable) Stat(ctx context.Context, name string) (Info, error) {
	if c.Crashed() {
		return Info{}, powerless("objstore.stat", name)
	}
	return c.m.Stat(ctx, name)
}

// List yields objects by prefix.
func (c *Crashable) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		if c.Crashed() {
			yield(Info{}, powerless("objstore.list", prefix))
			return
		}
		c.m.List(ctx, prefix)(yield)
	}
}

// Put writes an object.
func (c *Crashable) Put(ctx context.Context, name string, data []byte, cond Condition) (Info, error) {
	return c.write(ctx, "objstore.put", name, cond, data, false)
}

// Create streams an object; it is one write, at Commit.
func (c *Crashable) Create(ctx context.Context, name string, cond Condition) (Writer, error) {
	if c.Crashed() {
		return nil, powerless("objstore.create", name)
	}
	return newMemoryWriter(ctx, name, cond, c.Put)
}

// Delete removes an object.
func (c *Crashable) Delete(ctx context.Context, name string) error {
	_, err := c.write(ctx, "objstore.delete", name, Condition{}, nil, true)
	return err
}
