package objstore

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"sync"
	"time"

	"github.com/overlakedb/overlake/internal/errs"
)

// Faulty wraps a store and makes chosen operations fail. Faults are written in a small language, one rule a line:
//
//	ACTION OPERATION GLOB [from N] [times M] | [at N]
//
//	ACTION     fail      the operation does nothing and is Unavailable
//	           503       the same, in the words of an object store that wants to be asked later
//	           full      the operation does nothing and is Exhausted (a full disk)
//	           deny      the operation does nothing and is Denied
//	           unknown   a put or delete happens and is reported as Unavailable all the same (a lost answer)
//	           tear      a put stores only the first half of the object and is Unavailable, against O1: what a store does
//	                     that keeps less than it promises; a read gives the first half of the bytes and is Unavailable
//	           flip      a read succeeds with the lowest bit of its middle byte changed
//	           delay=D   the operation waits for D (a Go duration) first, or until its context ends
//	OPERATION  open, read, stat, list, put, create, write, delete, or * for all; put stands for Put and for Commit of a
//	           Writer, write for Write of a Writer
//	GLOB       matched against the name as path.Match does, and against its last part; * is every name. A listing has its
//	           prefix as name.
//	from N     the rule sleeps until its N-th match, counted from 1
//	times M    the rule acts on M matches, then never again; without it, for ever
//	at N       from N times 1
//
// Empty lines and text after # are ignored. The first rule that acts decides; a rule counts the matches that come to it.
// Faulty is no LocalPather, so that nothing reads around it.
type Faulty struct {
	s     Store
	mu    sync.Mutex
	rules []*fault
}

// NewFaulty wraps a store with the rules of a script.
func NewFaulty(s Store, script string) (*Faulty, error) {
	f := &Faulty{s: s}
	return f, f.Set(script)
}

// Set replaces the rules and their counts; a mistake in the script is Invalid and leaves the old ones.
func (f *Faulty) Set(script string) error {
	rules, err := parseFaults(script)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = rules
	return nil
}

// next finds the rule that acts on an operation now; nil means none.
func (f *Faulty) next(op, name string) *fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.rules {
		if r.matches(op, name) && r.due() {
			return r
		}
	}
	return nil
}

// mayTear reports whether a rule could tear a put of the name.
func (f *Faulty) mayTear(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.rules {
		if r.action == "tear" && r.matches("put", name) {
			return true
		}
	}
	return false
}

// before applies a rule that acts before the operation and gives the action of one that acts on it.
func (f *Faulty) before(ctx context.Context, op, name string) (action string, err error) {
	r := f.next(op, name)
	if r == nil {
		return "", nil
	}
	on := errs.On(name)
	switch r.action {
	case "fail":
		return "", errs.New(errs.Unavailable, "objstore."+op, "injected fault", on)
	case "503":
		return "", errs.New(errs.Unavailable, "objstore."+op, "injected fault: 503 slow down", on)
	case "full":
		return "", errs.New(errs.Exhausted, "objstore."+op, "injected fault: no space left", on)
	case "deny":
		return "", errs.New(errs.Denied, "objstore."+op, "injected fault: not permitted", on)
	case "delay":
		timer := time.NewTimer(r.delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return "", errs.Wrap(errs.Canceled, "objstore."+op, ctx.Err(), on)
		}
		return "", nil
	}
	return r.action, nil
}

func lost(op, name string) error {
	return errs.New(errs.Unavailable, op, "injected fault: the answer was lost", errs.On(name))
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
	return &faultyObject{Object: o, f: f, name: name}, nil
}

type faultyObject struct {
	Object
	f    *Faulty
	name string
}

func (o *faultyObject) ReadAt(p []byte, off int64) (int, error) {
	return o.ReadAtContext(context.Background(), p, off)
}

func (o *faultyObject) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	action, err := o.f.before(ctx, "read", o.name)
	if err != nil {
		return 0, err
	}
	if action == "tear" {
		n, err := ReadAt(ctx, o.Object, p[:len(p)/2], off)
		if err == nil || errors.Is(err, io.EOF) {
			err = errs.New(errs.Unavailable, "objstore.read", "injected fault: the connection broke", errs.On(o.name))
		}
		return n, err
	}
	n, err := ReadAt(ctx, o.Object, p, off)
	if action == "flip" && n > 0 {
		p[n/2] ^= 1
	}
	return n, err
}

// Stat describes an object.
func (f *Faulty) Stat(ctx context.Context, name string) (Info, error) {
	if _, err := f.before(ctx, "stat", name); err != nil {
		return Info{}, err
	}
	return f.s.Stat(ctx, name)
}

// List yields objects by prefix; a fault comes in place of the first object.
func (f *Faulty) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		if _, err := f.before(ctx, "list", prefix); err != nil {
			yield(Info{}, err)
			return
		}
		f.s.List(ctx, prefix)(yield)
	}
}

// Put writes an object.
func (f *Faulty) Put(ctx context.Context, name string, data []byte, cond Condition) (Info, error) {
	action, err := f.before(ctx, "put", name)
	if err != nil {
		return Info{}, err
	}
	if action == "tear" {
		data = data[:len(data)/2]
	}
	info, err := f.s.Put(ctx, name, data, cond)
	if err == nil && action != "" {
		return Info{}, lost("objstore.put", name)
	}
	return info, err
}

// Create streams an object; rules for put act at Commit.
func (f *Faulty) Create(ctx context.Context, name string, cond Condition) (Writer, error) {
	if _, err := f.before(ctx, "create", name); err != nil {
		return nil, err
	}
	w, err := f.s.Create(ctx, name, cond)
	if err != nil {
		return nil, err
	}
	return &faultyWriter{Writer: w, f: f, ctx: ctx, name: name, hold: f.mayTear(name)}, nil
}

// faultyWriter holds the bytes back until Commit when they may have to be torn there.
type faultyWriter struct {
	Writer
	f     *Faulty
	ctx   context.Context
	name  string
	hold  bool
	held  bytes.Buffer
	ended bool
}

func (w *faultyWriter) Write(p []byte) (int, error) {
	if w.ended {
		return 0, spent("objstore.write", w.name)
	}
	if _, err := w.f.before(w.ctx, "write", w.name); err != nil {
		return 0, err
	}
	if w.hold {
		return w.held.Write(p)
	}
	return w.Writer.Write(p)
}

func (w *faultyWriter) Commit(ctx context.Context) (Info, error) {
	if w.ended {
		return Info{}, spent("objstore.commit", w.name)
	}
	w.ended = true
	action, err := w.f.before(ctx, "put", w.name)
	if err == nil && w.hold {
		data := w.held.Bytes()
		if action == "tear" {
			data = data[:len(data)/2]
		}
		_, err = w.Writer.Write(data)
	}
	if err != nil {
		return Info{}, also(err, w.Writer.Abort())
	}
	info, err := w.Writer.Commit(ctx)
	if err == nil && (action == "unknown" || action == "tear" && w.hold) {
		return Info{}, lost("objstore.put", w.name)
	}
	return info, err
}

func (w *faultyWriter) Abort() error {
	if w.ended {
		return nil
	}
	w.ended = true
	w.held = bytes.Buffer{}
	return w.Writer.Abort()
}

// Delete removes an object.
func (f *Faulty) Delete(ctx context.Context, name string) error {
	action, err := f.before(ctx, "delete", name)
	if err != nil {
		return err
	}
	err = f.s.Delete(ctx, name)
	if err == nil && action == "unknown" {
		return lost("objstore.delete", name)
	}
	return err
}
