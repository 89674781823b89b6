package overlake

import (
	"math"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// garbage bounds what the process takes while indexes are built: without a limit, the collector waits until there is as much
// garbage as is held.
type garbage struct {
	mu     sync.Mutex
	builds int
	held   int64 // by the running builds, at most
	before int64 // in use when the first of them began
}

// garbageRoom is garbage beside what builds hold, and what they write and read.
const garbageRoom = 64 << 20

// bounded is shared by all DBs, as the limit is.
var bounded garbage

// hold is told that a build begins that may hold so many bytes; done that it has ended.
func (g *garbage) hold(bytes int64) (done func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.builds == 0 {
		if debug.SetMemoryLimit(-1) != math.MaxInt64 {
			return func() {} // somebody else has set one
		}
		g.before = inUse()
	}
	g.builds++
	g.held += bytes
	debug.SetMemoryLimit(g.before + g.held + garbageRoom)
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.builds--
		g.held -= bytes
		limit := int64(math.MaxInt64)
		if g.builds > 0 {
			limit = g.before + g.held + garbageRoom
		}
		debug.SetMemoryLimit(limit)
	}
}

// inUse is the memory that the limit is about, less what is garbage already.
func inUse() int64 {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/metadata/other:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(live)
	n := int64(0)
	for _, s := range live {
		if s.Value.Kind() == metrics.KindUint64 {
			n += int64(s.Value.Uint64())
		}
	}
	return n
}
