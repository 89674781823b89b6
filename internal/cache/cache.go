// Package cache answers: was it seen before?
//
// An LRU keeps immutable values in memory, bounded in bytes; what was used longest ago goes first. It knows nothing of where
// values come from: a value that may change has to have what it depends on in its key.
package cache

import (
	"container/list"
	"sync"
)

// LRU is a cache bounded in bytes. It is safe for concurrent use. Two that miss at once both make the value, and the later
// one stays, which costs work but never a wrong answer.
type LRU struct {
	mu    sync.Mutex
	limit int64
	used  int64
	items map[string]*list.Element
	order list.List // front: used last
}

type item struct {
	key   string
	value any
	size  int64
}

// New makes a cache of at most limit bytes.
func New(limit int64) *LRU { return &LRU{limit: limit, items: map[string]*list.Element{}} }

// Get gives the value of a key.
func (c *LRU) Get(key string) (any, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.items[key]
	if !ok {
		return nil, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*item).value, true
}

// Put keeps a value of about size bytes, unless it alone would take more than a quarter of the cache.
func (c *LRU) Put(key string, value any, size int64) {
	size += int64(len(key)) + 128
	if size > c.limit/4 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.items[key]; ok {
		old := e.Value.(*item)
		c.used += size - old.size
		e.Value = &item{key, value, size}
		c.order.MoveToFront(e)
	} else {
		c.items[key] = c.order.PushFront(&item{key, value, size})
		c.used += size
	}
	for c.used > c.limit {
		last := c.order.Back()
		gone := last.Value.(*item)
		c.order.Remove(last)
		delete(c.items, gone.key)
		c.used -= gone.size
	}
}

// Delete forgets a key.
func (c *LRU) Delete(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.items[key]; ok {
		c.order.Remove(e)
		delete(c.items, key)
		c.used -= e.Value.(*item).size
	}
}

// Clear forgets all keys.
func (c *LRU) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.items, c.used = map[string]*list.Element{}, 0
	c.order.Init()
}

// Bytes is what the values take, as their makers told.
func (c *LRU) Bytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used
}

// Or gives the value of a key, making it on a miss; make tells its size in bytes.
func Or[T any](c *LRU, key string, make func() (T, int64, error)) (T, error) {
	if v, ok := c.Get(key); ok {
		return v.(T), nil
	}
	v, size, err := make()
	if err != nil {
		return v, err
	}
	c.Put(key, v, size)
	return v, nil
}
