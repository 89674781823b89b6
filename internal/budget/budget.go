// Package budget answers: may I use this much?
//
// A Budget is a number of bytes (or of anything else that is counted) with a limit. Whoever is about to use some reserves
// it first and holds a Reservation until it is given back. A child budget has its own, usually smaller limit, and what it
// hands out counts for all its ancestors too: the memory of a query inside the memory of the process.
//
// Invariants:
//
//	B1  The reservations of a budget and of its children together never exceed its limit.
//	B2  A reservation that can never fit fails at once; one that does not fit now waits in Reserve and fails in
//	    TryReserve and Grow.
//	B3  Waiters are served in the order they came. A waiter is passed over only by those who need nothing from the budget
//	    that it waits for; TryReserve does not push in either. So a large request is not starved by small ones.
//	B4  Grow does push in: it belongs to a holder who can only give back by going on.
//
// To wait while holding a reservation can deadlock with another who does the same. So Reserve is for the start of a work,
// and Grow, which does not wait, for its course: on Exhausted a holder spills, gives back, or fails.
package budget

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/overlakedb/overlake/internal/errs"
)

// Budget hands out reservations up to a limit. All methods may be called by many goroutines at once.
type Budget struct {
	name   string
	limit  int64
	parent *Budget
	tree   *tree

	used, peak int64 // guarded by tree.mu
}

// tree is what a budget shares with its descendants.
type tree struct {
	mu      sync.Mutex
	waiting []*waiter // in the order they came
}

type waiter struct {
	b       *Budget
	n       int64
	granted chan struct{}
}

// New returns a budget of so many units. With a limit of 0 or less only empty reservations fit.
func New(limit int64) *Budget {
	return &Budget{name: "budget", limit: max(limit, 0), tree: &tree{}}
}

// Child returns a budget whose reservations count here too. Its limit may be larger than its parent's, which then decides.
// The name shows in errors: "query", "cache".
func (b *Budget) Child(name string, limit int64) *Budget {
	return &Budget{name: name, limit: max(limit, 0), parent: b, tree: b.tree}
}

// Limit is the most that can be reserved.
func (b *Budget) Limit() int64 { return b.limit }

// Used is what is reserved now, by children too.
func (b *Budget) Used() int64 {
	b.tree.mu.Lock()
	defer b.tree.mu.Unlock()
	return b.used
}

// Peak is the largest Used so far.
func (b *Budget) Peak() int64 {
	b.tree.mu.Lock()
	defer b.tree.mu.Unlock()
	return b.peak
}

// Waiting is the number of Reserve calls that wait for room in this budget or its descendants.
func (b *Budget) Waiting() int {
	b.tree.mu.Lock()
	defer b.tree.mu.Unlock()
	n := 0
	for _, w := range b.tree.waiting {
		for c := w.b; c != nil; c = c.parent {
			if c == b {
				n++
			}
		}
	}
	return n
}

// Reserve takes n units and waits until they fit, or until the context ends: Canceled. What exceeds the limit of this
// budget or of an ancestor is Exhausted at once, and a negative n is Invalid.
func (b *Budget) Reserve(ctx context.Context, n int64) (*Reservation, error) {
	const op = "budget.reserve"
	if err := ctx.Err(); err != nil {
		return nil, errs.Wrap(errs.Canceled, op, err, errs.On(b.name))
	}
	if err := b.possible(op, n); err != nil {
		return nil, err
	}
	b.tree.mu.Lock()
	if r := b.takeInTurn(n); r != nil {
		b.tree.mu.Unlock()
		return r, nil
	}
	w := &waiter{b: b, n: n, granted: make(chan struct{})}
	b.tree.waiting = append(b.tree.waiting, w)
	b.tree.mu.Unlock()
	select {
	case <-w.granted:
		return &Reservation{b: b, n: n}, nil
	case <-ctx.Done():
	}
	b.tree.mu.Lock()
	defer b.tree.mu.Unlock()
	i := slices.Index(b.tree.waiting, w)
	if i < 0 {
		b.give(n) // granted in the same moment: the end of the context wins, and the units go on to the next
	} else {
		b.tree.waiting = slices.Delete(b.tree.waiting, i, i+1)
	}
	b.tree.serve()
	return nil, errs.Wrap(errs.Canceled, op, ctx.Err(), errs.On(b.name))
}

// TryReserve takes n units if they fit now and nobody waits for them; else it is Exhausted.
func (b *Budget) TryReserve(n int64) (*Reservation, error) {
	const op = "budget.reserve"
	if err := b.possible(op, n); err != nil {
		return nil, err
	}
	b.tree.mu.Lock()
	defer b.tree.mu.Unlock()
	if r := b.takeInTurn(n); r != nil {
		return r, nil
	}
	return nil, b.exhausted(op, n)
}

// possible refuses what can never be reserved.
func (b *Budget) possible(op string, n int64) error {
	if n < 0 {
		return errs.With(errs.Newf(errs.Invalid, op, "a reservation of %d", n), errs.On(b.name))
	}
	for c := b; c != nil; c = c.parent {
		if n > c.limit {
			return errs.With(errs.Newf(errs.Exhausted, op, "%d are asked of the %d there can be", n, c.limit),
				errs.On(c.name), errs.Hint("raise the limit of the %s or ask for less", c.name))
		}
	}
	return nil
}

// The methods below are called with tree.mu held.

// full returns the first budget from here to the root that has no room for n, or nil.
func (b *Budget) full(n int64) *Budget {
	for c := b; c != nil; c = c.parent {
		if n > c.limit-c.used {
			return c
		}
	}
	return nil
}

func (b *Budget) take(n int64) {
	for c := b; c != nil; c = c.parent {
		c.used += n
		c.peak = max(c.peak, c.used)
	}
}

func (b *Budget) give(n int64) {
	for c := b; c != nil; c = c.parent {
		c.used -= n
	}
}

// takeInTurn reserves n unless it does not fit or somebody waits for a budget that it needs; then it returns nil.
func (b *Budget) takeInTurn(n int64) *Reservation {
	if b.full(n) != nil {
		return nil
	}
	if n > 0 {
		for _, w := range b.tree.waiting {
			if blocked := w.b.full(w.n); blocked != nil && b.under(blocked) {
				return nil
			}
		}
	}
	b.take(n)
	return &Reservation{b: b, n: n}
}

// under reports whether a is b or an ancestor of it.
func (b *Budget) under(a *Budget) bool {
	for c := b; c != nil; c = c.parent {
		if c == a {
			return true
		}
	}
	return false
}

// serve grants, in order, what fits and takes nothing from an earlier waiter.
func (t *tree) serve() {
	var blocked []*Budget
	t.waiting = slices.DeleteFunc(t.waiting, func(w *waiter) bool {
		if f := w.b.full(w.n); f != nil {
			blocked = append(blocked, f)
			return false
		}
		if slices.ContainsFunc(blocked, w.b.under) {
			return false
		}
		w.b.take(w.n)
		close(w.granted)
		return true
	})
}

func (b *Budget) exhausted(op string, n int64) error {
	f := b.full(n)
	if f == nil { // there is room, but it is promised to a waiter
		return errs.New(errs.Exhausted, op, fmt.Sprintf("%d are asked while others wait", n), errs.On(b.name),
			errs.Hint("raise the limit of the %s or run less at once", b.name))
	}
	return errs.New(errs.Exhausted, op, fmt.Sprintf("%d are asked, %d of %d are in use", n, f.used, f.limit), errs.On(f.name),
		errs.Hint("raise the limit of the %s or run less at once", f.name))
}

// Reservation is a part of a budget in somebody's hands. Its methods may be called by many goroutines at once, and on nil.
type Reservation struct {
	b        *Budget
	n        int64 // guarded by b.tree.mu, like released
	released bool
}

// Size is the number of units held.
func (r *Reservation) Size() int64 {
	if r == nil {
		return 0
	}
	r.b.tree.mu.Lock()
	defer r.b.tree.mu.Unlock()
	return r.n
}

// Grow takes n more units if they fit now, else it is Exhausted and the reservation stays as it was. It does not wait and
// does not mind who waits. To grow what was released is Invalid, and so is a negative n.
func (r *Reservation) Grow(n int64) error {
	const op = "budget.grow"
	if r == nil {
		return errs.New(errs.Invalid, op, "there is no reservation to grow")
	}
	t := r.b.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case n < 0:
		return errs.With(errs.Newf(errs.Invalid, op, "growth by %d", n), errs.On(r.b.name))
	case r.released:
		return errs.New(errs.Invalid, op, "the reservation was released", errs.On(r.b.name))
	case r.b.full(n) != nil:
		return r.b.exhausted(op, n)
	}
	r.b.take(n)
	r.n += n
	return nil
}

// Shrink gives n units back, all that are held when n is larger; a negative n gives none.
func (r *Reservation) Shrink(n int64) {
	if r == nil || n <= 0 {
		return
	}
	t := r.b.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	r.shrink(n)
}

// Release gives everything back. Again is no harm.
func (r *Reservation) Release() {
	if r == nil {
		return
	}
	t := r.b.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	r.released = true
	r.shrink(r.n)
}

func (r *Reservation) shrink(n int64) {
	n = min(n, r.n)
	r.n -= n
	r.b.give(n)
	r.b.tree.serve()
}
