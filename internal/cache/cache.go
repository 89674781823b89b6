// Package cache answers: was it seen before?
//
// An LRU keeps immutable values in memory, bounded in bytes; what was used longest ago goes first. It knows nothing of where
// values come from: a value that may change has to have what it depends on in its key.
package cache

import (
	"container/list"
	"sync"
	"unsafe"
)

// LRU is a cache bounded in bytes, of values by text.
type LRU = By[string]

// By is a cache bounded in bytes, of values by keys of a type. It is safe for concurrent use. Two that miss at once both make
// the value, and the later one stays, which costs work but never a wrong answer.
type By[K comparable] struct {
	mu    sync.Mutex
	limit int64
	most  int64 // of one value
	used  int64
	items map[K]*list.Element
	order list.List // front: used last
}

type item[K comparable] struct {
	key   K
	value any
	size  int64
}

// New makes a cache of at most limit bytes.
func New(limit int64) *LRU { return NewBy[string](limit) }

// NewWhole is New for values that may take all of it: what costs more to make than all else to make again.
func NewWhole(limit int64) *LRU {
	c := New(limit)
	c.most = limit
	return c
}

// NewBy is New for keys of another type.
func NewBy[K comparable](limit int64) *By[K] {
	return &By[K]{limit: limit, most: limit / 4, items: map[K]*list.Element{}}
}

// itemBytes is about what an entry takes besides its value.
const itemBytes = 128

func sizeOf[K comparable](key K) int64 {
	if s, ok := any(key).(string); ok {
		return int64(len(s)) + itemBytes
	}
	return int64(unsafe.Sizeof(key)) + itemBytes
}

// Get gives the value of a key.
func (c *By[K]) Get(key K) (any, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.items[key]
	if !ok {
		return nil, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*item[K]).value, true
}

// Put keeps a value of about size bytes, unless it alone would take more than a quarter of the cache, or than all of a whole one.
func (c *By[K]) Put(key K, value any, size int64) {
	size += sizeOf(key)
	if size > c.most {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.items[key]; ok {
		old := e.Value.(*item[K])
		c.used += size - old.size
		e.Value = &item[K]{key, value, size}
		c.order.MoveToFront(e)
	} else {
		c.items[key] = c.order.PushFront(&item[K]{key, value, size})
		c.used += size
	}
	for c.used > c.limit {
		last := c.order.Back()
		gone := last.Value.(*item[K])
		c.order.Remove(last)
		delete(c.items, gone.key)
		c.used -= gone.size
	}
}

// Delete forgets a key.
func (c *By[K]) Delete(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.items[key]; ok {
		c.order.Remove(e)
		delete(c.items, key)
		c.used -= e.Value.(*item[K]).size
	}
}

// Clear forgets all keys.
func (c *By[K]) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.items, c.used = map[K]*list.Element{}, 0
	c.order.Init()
}

// Bytes is what the values take, as their makers told.
func (c *By[K]) Bytes() int64 {
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
