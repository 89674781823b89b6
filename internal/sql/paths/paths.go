// Package paths answers: by which path does the engine know a data file?
package paths

import (
	lists "container/list"
	"sync"

	"github.com/overlakedb/overlake/internal/objstore"
)

// Most bounds the data files that the engine should know at once, apart from those that running statements use.
const Most = 100_000

// Place is where a data file lies.
type Place struct {
	Store objstore.LocalPather
	Name  string
}

// path is a data file as the engine knows it.
type path struct {
	at      Place
	name    string // in SQL; "" for files that only the lake can read
	release func() // makes the engine forget it
	users   int    // statements that run on it
	entry   *lists.Element
}

// Paths remembers the engine's paths of data files: each is made once, and forgotten when many others were used since and
// no statement runs on it. It is safe for concurrent use.
type Paths struct {
	mu    sync.Mutex
	limit int
	known map[Place]*path
	order lists.List // front: used last
}

func New(limit int) *Paths { return &Paths{limit: limit, known: map[Place]*path{}} }

// Use gives the paths of files, in their order, for one statement, which calls done when it is closed. reach makes a file
// known to the engine.
func (p *Paths) Use(files []Place, reach func(i int) (name string, release func(), err error)) (names []string, done func(), err error) {
	names = make([]string, len(files))
	used := make([]*path, 0, len(files))
	done = func() { p.done(used) }
	var missing []int
	p.mu.Lock()
	for i, at := range files {
		if k := p.known[at]; k != nil {
			used = append(used, p.touch(k))
			names[i] = k.name
		} else {
			missing = append(missing, i)
		}
	}
	p.mu.Unlock()
	for _, i := range missing {
		name, release, err := reach(i) // may read the file, so nobody waits for it
		if err != nil {
			done()
			return nil, nil, err
		}
		k := p.add(files[i], name, release)
		used = append(used, k)
		names[i] = k.name
	}
	return names, done, nil
}

// touch counts a user; the lock is held.
func (p *Paths) touch(k *path) *path {
	k.users++
	p.order.MoveToFront(k.entry)
	return k
}

// add remembers a path, unless another statement was faster: then its path is the one.
func (p *Paths) add(at Place, name string, release func()) *path {
	p.mu.Lock()
	k := p.known[at]
	spare := release
	if k == nil {
		k, spare = &path{at: at, name: name, release: release}, nil
		k.entry = p.order.PushFront(k)
		p.known[at] = k
	}
	p.touch(k)
	p.mu.Unlock()
	if spare != nil {
		spare()
	}
	return k
}

// done ends the use of paths and forgets those that are too many.
func (p *Paths) done(used []*path) {
	var gone []func()
	p.mu.Lock()
	for _, k := range used {
		k.users--
	}
	for e := p.order.Back(); e != nil && len(p.known) > p.limit; {
		k := e.Value.(*path)
		e = e.Prev()
		if k.users > 0 {
			continue
		}
		p.order.Remove(k.entry)
		delete(p.known, k.at)
		if k.release != nil {
			gone = append(gone, k.release)
		}
	}
	p.mu.Unlock()
	for _, release := range gone {
		release()
	}
}
