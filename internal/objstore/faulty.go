package objstore

import (
	"context"
	"fmt"
	"iter"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/overlakedb/overlake/internal/errs"
)

// Faulty wraps a store and makes chosen operations fail. Faults are written in a small language, one rule a line:
//
//	ACTION OPERATION GLOB [from N] [times M]
//
//	ACTION     fail      the operation does nothing and is Unavailable
//	           full      the operation does nothing and is Exhausted (a full disk)
//	           deny      the operation does nothing and is Denied
//	           unknown   the operation happens and is reported as Unavailable all the same (a lost answer)
//	           tear      a write stores only the first half of the object and is Unavailable
//	           delay=D   the operation waits for D (a Go duration) first
//	OPERATION  open, read, stat, list, put, delete, or * for all; put stands for Put and for Commit of a Writer
//	GLOB       matched against the name as path.Match does, and against its last part; * is every name
//	from N     the rule sleeps until its N-th match, counted from 1
//	times M    the rule acts on M matches, then never again; without it, for ever
//
// Empty lines and text after # are ignored.
type Faulty struct {
	s     Store
	mu    sync.Mutex
	rules []*fault
}

type fault struct {
	action string
	delay  time.Duration
	op     string
	glob   string
	from   int
	times  int // -1: for ever
	seen   int
}

// NewFaulty wraps a store with the rules of a script.
func NewFaulty(s Store, script string) (*Faulty, error) {
	f := &Faulty{s: s}
	return f, f.Set(script)
}

// Set replaces the rules.
func (f *Faulty) Set(script string) error {
	var rules []*fault
	for n, line := range strings.Split(script, "\n") {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		r, err := parseFault(words)
		if err != nil {
			return errs.Newf(errs.Invalid, "objstore.faults", "line %d: %w", n+1, err)
		}
		rules = append(rules, r)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = rules
	return nil
}

func parseFault(words []string) (*fault, error) {
	if len(words) < 3 || len(words)%2 != 1 {
		return nil, fmt.Errorf("want ACTION OPERATION GLOB [from N] [times M], have %q", strings.Join(words, " "))
	}
	r := &fault{action: words[0], op: words[1], glob: words[2], from: 1, times: -1}
	if d, ok := strings.CutPrefix(r.action, "delay="); ok {
		var err error
		if r.delay, err = time.ParseDuration(d); err != nil {
			return nil, err
		}
		r.action = "delay"
	}
	if !strings.Contains(" fail full deny unknown tear delay ", " "+r.action+" ") {
		return nil, fmt.Errorf("unknown action %q", r.action)
	}
	if !strings.Contains(" open read stat list put delete * ", " "+r.op+" ") {
		return nil, fmt.Errorf("unknown operation %q", r.op)
	}
	if _, err := path.Match(r.glob, ""); err != nil {
		return nil, err
	}
	for i := 3; i < len(words); i += 2 {
		n, err := strconv.Atoi(words[i+1])
		switch {
		case err != nil:
			return nil, err
		case words[i] == "from":
			r.from = n
		case words[i] == "times":
			r.times = n
		default:
			return nil, fmt.Errorf("unknown word %q", words[i])
		}
	}
	return r, nil
}

// next finds the rule that acts on an operation now; nil means none.
func (f *Faulty) next(op, name string) *fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.rules {
		if r.op != "*" && r.op != op {
			continue
		}
		whole, _ := path.Match(r.glob, name)
		last, _ := path.Match(r.glob, path.Base(name))
		if r.glob != "*" && !whole && !last {
			continue
		}
		r.seen++
		if r.seen < r.from || r.times >= 0 && r.seen >= r.from+r.times {
			continue
		}
		return r
	}
	return nil
}

// before applies a rule that acts before the operation. Actions that need the operation come back in the fault.
func (f *Faulty) before(ctx context.Context, op, name string) (*fault, error) {
	r := f.next(op, name)
	if r == nil {
		return nil, nil
	}
	on := errs.On(name)
	switch r.action {
	case "fail":
		return nil, errs.New(errs.Unavailable, "objstore."+op, "injected fault", on)
	case "full":
		return nil, errs.New(errs.Exhausted, "objstore."+op, "injected fault: no space left", on)
	case "deny":
		return nil, errs.New(errs.Denied, "objstore."+op, "injected fault: not permitted", on)
	case "delay":
		select {
		case <-time.After(r.delay):
		case <-ctx.Done():
			return nil, errs.Wrap(errs.Canceled, "objstore."+op, ctx.Err(), on)
		}
	}
	return r, nil
}

func lost(name string) error {
	return errs.New(errs.Unavailable, "objstore.put", "injected fault: the answer was lost", errs.On(name))
}

// Location is that of the wrapped store.
func (f *Faulty) Location() string { return f.s.Location() }

// Open opens an object; its reads meet the rules for read.
func (f *Faulty) Open(ctx context.Context, name string) (Object, error) {
	if _, err := f.before(ctx, "open", name); err != nil {
		return nil, err
	}
	o, err := f.s.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	return &faultyObject{Object: o, f: f, ctx: ctx, name: name}, nil
}

type faultyObject struct {
	Object
	f    *Faulty
	ctx  context.Context
	name string
}

func (o *faultyObject) ReadAt(p []byte, off int64) (int, error) {
	if _, err := o.f.before(o.ctx, "read", o.name); err != nil {
		return 0, err
	}
	return o.Object.ReadAt(p, off)
}

// Stat describes an object.
func (f *Faulty) Stat(ctx context.Context, name string) (Info, error) {
	if _, err := f.before(ctx, "stat", name); err != nil {
		return Info{}, err
	}
	return f.s.Stat(ctx, name)
}

// List yields objects by prefix.
func (f *Faulty) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	if _, err := f.before(ctx, "list", prefix); err != nil {
		return func(yield func(Info, error) bool) { yield(Info{}, err) }
	}
	return f.s.List(ctx, prefix)
}

// Put writes an object.
func (f *Faulty) Put(ctx context.Context, name string, data []byte, cond Condition) (Info, error) {
	r, err := f.before(ctx, "put", name)
	if err != nil {
		return Info{}, err
	}
	if r != nil && r.action == "tear" {
		_, err := f.s.Put(ctx, name, data[:len(data)/2], cond)
		if err == nil {
			err = lost(name)
		}
		return Info{}, err
	}
	info, err := f.s.Put(ctx, name, data, cond)
	if err == nil && r != nil && r.action == "unknown" {
		return Info{}, lost(name)
	}
	return info, err
}

// Create streams an object; rules for put act at Commit.
func (f *Faulty) Create(ctx context.Context, name string, cond Condition) (Writer, error) {
	w, err := f.s.Create(ctx, name, cond)
	if err != nil {
		return nil, err
	}
	return &faultyWriter{Writer: w, f: f, name: name}, nil
}

type faultyWriter struct {
	Writer
	f    *Faulty
	name string
}

func (w *faultyWriter) Commit(ctx context.Context) (Info, error) {
	r, err := w.f.before(ctx, "put", w.name)
	if err != nil {
		return Info{}, joinAbort(err, w.Writer)
	}
	if r != nil && r.action == "tear" {
		// A streamed object is published whole or not at all, so a torn one is an object that never appears.
		return Info{}, joinAbort(lost(w.name), w.Writer)
	}
	info, err := w.Writer.Commit(ctx)
	if err == nil && r != nil && r.action == "unknown" {
		return Info{}, lost(w.name)
	}
	return info, err
}

func joinAbort(err error, w Writer) error {
	if a := w.Abort(); a != nil {
		return a
	}
	return err
}

// Delete removes an object.
func (f *Faulty) Delete(ctx context.Context, name string) error {
	if _, err := f.before(ctx, "delete", name); err != nil {
		return err
	}
	return f.s.Delete(ctx, name)
}
