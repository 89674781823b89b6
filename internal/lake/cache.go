package lake

import (
	"container/list"
	"sync"
)

// lru is a cache of immutable values bounded in bytes; what was used longest ago goes first. Two readers that miss at
// once both read and the later one wins, which costs work but never a wrong answer.
type lru struct {
	mu    sync.Mutex
	limit int64
	used  int64
	items map[string]*list.Element
	order list.List // front: used last
}

type lruItem struct {
	key   string
	value any
	size  int64
}

func newLRU(limit int64) *lru { return &lru{limit: limit, items: map[string]*list.Element{}} }

func (c *lru) get(key string) (any, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.items[key]
	if !ok {
		return nil, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*lruItem).value, true
}

// put keeps a value of about size bytes, unless it alone would take more than a quarter of the cache.
func (c *lru) put(key string, value any, size int64) {
	size += int64(len(key)) + 128
	if size > c.limit/4 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.items[key]; ok {
		old := e.Value.(*lruItem)
		c.used += size - old.size
		e.Value = &lruItem{key, value, size}
		c.order.MoveToFront(e)
	} else {
		c.items[key] = c.order.PushFront(&lruItem{key, value, size})
		c.used += size
	}
	for c.used > c.limit {
		last := c.order.Back()
		item := last.Value.(*lruItem)
		c.order.Remove(last)
		delete(c.items, item.key)
		c.used -= item.size
	}
}

// cachedOr returns the value of a key, making it on a miss; make tells its size in bytes.
func cachedOr[T any](c *lru, key string, make func() (T, int64, error)) (T, error) {
	if v, ok := c.get(key); ok {
		return v.(T), nil
	}
	v, size, err := make()
	if err != nil {
		return v, err
	}
	c.put(key, v, size)
	return v, nil
}
