package objstore

import (
	"context"
	"math/rand/v2"
	"sync"
)

// Crashable is a memory store that can lose power: after CrashAfter(n) the n-th write from then on is the last thing
// that happens, done or not by the toss of a coin, and every later operation fails as Unavailable. Restart gives the
// store that a new process would find. Since every acknowledged write of a Store is durable (O2), exactly the
// acknowledged writes, and possibly the one in flight, are there.
type Crashable struct {
	*Faulty
	m *Memory

	mu    sync.Mutex
	left  int // writes until the crash; -1 means none is planned
	coin  *rand.Rand
	count int
}

// NewCrashable returns an empty store whose coin has a seed.
func NewCrashable(name string, seed uint64) *Crashable {
	m := NewMemory(name)
	c := &Crashable{m: m, left: -1, coin: rand.New(rand.NewPCG(seed, 1))}
	c.Faulty = &Faulty{s: m}
	return c
}

// CrashAfter plans the crash at the n-th write from now, n ≥ 1.
func (c *Crashable) CrashAfter(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = n
}

// Writes is the number of writes and deletes so far: a test runs a history once to learn how many crash points it has.
func (c *Crashable) Writes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

// Crashed reports whether the planned crash has happened.
func (c *Crashable) Crashed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.left == 0
}

// Restart returns the store as a new process finds it.
func (c *Crashable) Restart() *Crashable {
	n := NewCrashable(c.m.name, c.coin.Uint64())
	c.m.mu.RLock()
	defer c.m.mu.RUnlock()
	for name, o := range c.m.objects {
		n.m.objects[name] = o
	}
	n.m.version = c.m.version
	return n
}

// step counts a write. do tells whether the write happens, ok whether it is acknowledged.
func (c *Crashable) step() (do, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left == 0 {
		return false, false
	}
	c.count++
	if c.left > 0 {
		if c.left--; c.left == 0 {
			_ = c.Faulty.Set("fail * *")
			return c.coin.IntN(2) == 0, false
		}
	}
	return true, true
}

// Put writes an object unless the crash comes first.
func (c *Crashable) Put(ctx context.Context, name string, data []byte, cond Condition) (Info, error) {
	do, ok := c.step()
	if do {
		info, err := c.m.Put(ctx, name, data, cond)
		if err != nil || ok {
			return info, err
		}
	}
	return Info{}, lost(name)
}

// Create streams an object; the crash can only come at its Commit.
func (c *Crashable) Create(ctx context.Context, name string, cond Condition) (Writer, error) {
	if c.Crashed() {
		return nil, lost(name)
	}
	w, err := c.m.Create(ctx, name, cond)
	if err != nil {
		return nil, err
	}
	return &crashableWriter{memoryWriter: w.(*memoryWriter), c: c}, nil
}

type crashableWriter struct {
	*memoryWriter
	c *Crashable
}

func (w *crashableWriter) Commit(ctx context.Context) (Info, error) {
	return w.c.Put(ctx, w.name, w.buf.Bytes(), w.cond)
}

// Delete removes an object unless the crash comes first.
func (c *Crashable) Delete(ctx context.Context, name string) error {
	do, ok := c.step()
	if do {
		if err := c.m.Delete(ctx, name); err != nil || ok {
			return err
		}
	}
	return lost(name)
}
