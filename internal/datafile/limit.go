package datafile

import (
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

// limited is an allocator that refuses, by a panic that guard understands, what a hostile or very wide file asks for. The
// limit holds for what is taken between two calls of begin: what the caller keeps of earlier batches does not count.
type limited struct {
	memory.Allocator
	limit int64
	live  atomic.Int64
	base  atomic.Int64
}

func (l *limited) begin() { l.base.Store(l.live.Load()) }

func (l *limited) take(n int64) {
	if now := l.live.Add(n); n > 0 && now-l.base.Load() > l.limit {
		l.live.Add(-n)
		panic(overLimit{wanted: n, limit: l.limit})
	}
}

func (l *limited) Allocate(n int) []byte {
	l.take(int64(n))
	return l.Allocator.Allocate(n)
}

func (l *limited) Reallocate(n int, b []byte) []byte {
	l.take(int64(n - len(b)))
	return l.Allocator.Reallocate(n, b)
}

func (l *limited) Free(b []byte) {
	l.live.Add(-int64(len(b)))
	l.Allocator.Free(b)
}
