package overlay

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/lake"
)

// Builds in the background: one at a time for a warehouse, so that they leave the machine to queries. A table that changes
// while it is built is built once more.

type background struct {
	mu      sync.Mutex
	queue   []*job
	byTable map[string]*job // waiting or running
	running bool
	current *job
	ctx     context.Context
	cancel  context.CancelFunc
	done    chan struct{} // closed when nothing runs
}

// job is the build of a table.
type job struct {
	o      *Overlay
	t      *lake.Table
	ctx    context.Context
	cancel context.CancelFunc
	again  bool // asked for while it ran
	ended  chan struct{}
	err    error

	progress Progress // of the build that runs
}

// Running is the build of a table that waits or runs.
type Running struct {
	Table string
	Progress
}

// Builds lists what waits and runs in this process, in the order in which it will end.
func (s *Set) Builds() []Running {
	b := &s.background
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []Running
	if b.current != nil {
		out = append(out, Running{b.current.o.table, b.current.progress})
	}
	for _, j := range b.queue {
		out = append(out, Running{Table: j.o.table})
	}
	return out
}

// Follow builds in the background what the indexes of a table lack. It is called after a commit, and costs nothing when the
// table has no index.
func (s *Set) Follow(ctx context.Context, t *lake.Table) {
	if s.write == nil || s.opts.ByHand || t.ReadOnly() {
		return
	}
	v, err := s.Of(t).version(ctx)
	if err == nil && len(v.Definitions()) > 0 {
		s.Start(t)
	}
}

// Start builds in the background what the indexes of a table lack.
func (s *Set) Start(t *lake.Table) {
	b := &s.background
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.byTable == nil {
		b.byTable = map[string]*job{}
		b.ctx, b.cancel = context.WithCancel(context.Background())
	}
	if b.ctx.Err() != nil {
		return
	}
	id := t.UUID()
	if j := b.byTable[id]; j != nil {
		j.again = true
		return
	}
	j := &job{o: s.Of(t), t: t, ended: make(chan struct{})}
	j.ctx, j.cancel = context.WithCancel(b.ctx)
	b.byTable[id] = j
	b.queue = append(b.queue, j)
	if !b.running {
		b.running = true
		b.done = make(chan struct{})
		go b.run()
	}
}

func (b *background) run() {
	for {
		b.mu.Lock()
		if len(b.queue) == 0 || b.ctx.Err() != nil {
			for _, j := range b.queue {
				j.err = errs.Wrap(errs.Canceled, "overlay.build", b.ctx.Err())
				delete(b.byTable, j.t.UUID())
				j.cancel()
				close(j.ended)
			}
			b.queue, b.running = nil, false
			close(b.done)
			b.mu.Unlock()
			return
		}
		j := b.queue[0]
		b.queue, b.current = b.queue[1:], j
		b.mu.Unlock()
		for {
			b.mu.Lock()
			j.again = false
			b.mu.Unlock()
			tell := func(p Progress) {
				b.mu.Lock()
				defer b.mu.Unlock()
				j.progress = p
			}
			if _, j.err = j.o.buildSafely(j.ctx, j.t, tell); j.err != nil && j.ctx.Err() == nil {
				j.o.event(Event{What: "indexes could not be built in the background", Err: j.err})
			}
			b.mu.Lock()
			if !j.again || j.ctx.Err() != nil {
				delete(b.byTable, j.t.UUID())
				j.cancel()
				close(j.ended)
				b.current = nil
				b.mu.Unlock()
				break
			}
			b.mu.Unlock()
		}
	}
}

// buildSafely is Build for a goroutine of its own.
func (o *Overlay) buildSafely(ctx context.Context, t *lake.Table, progress func(Progress)) (r Report, err error) {
	defer func() {
		if x := recover(); x != nil {
			err = errs.Newf(errs.Internal, "overlay.build", "%v", x)
		}
	}()
	if r, err = o.Build(ctx, t, BuildOptions{Progress: progress}); err != nil || r.FilesDone == 0 {
		return r, err
	}
	// Now and then the garbage goes out too.
	if v, err := o.version(ctx); err == nil && v.Number%collectEvery == 0 {
		if _, err := o.Collect(ctx, t); err != nil && ctx.Err() == nil {
			o.event(Event{What: "what indexes no longer use could not be removed", Err: err})
		}
	}
	return r, nil
}

// collectEvery is how many versions of an overlay lie between two collections of garbage.
const collectEvery = 16

// Wait returns when no build of the table is waiting or running in this process; the error is that of the last one.
func (s *Set) Wait(ctx context.Context, t *lake.Table) error {
	for {
		s.background.mu.Lock()
		j := s.background.byTable[t.UUID()]
		s.background.mu.Unlock()
		if j == nil {
			return nil
		}
		select {
		case <-j.ended:
			return j.err
		case <-ctx.Done():
			return errs.Wrap(errs.Canceled, "overlay.wait", ctx.Err())
		}
	}
}

// WaitAll returns when no build waits or runs in this process.
func (s *Set) WaitAll(ctx context.Context) error {
	for {
		s.background.mu.Lock()
		running, done := s.background.running, s.background.done
		s.background.mu.Unlock()
		if !running {
			return nil
		}
		select {
		case <-done:
		case <-ctx.Done():
			return errs.Wrap(errs.Canceled, "overlay.wait", ctx.Err())
		}
	}
}

// Busy tells whether a build waits or runs in this process.
func (s *Set) Busy() bool {
	s.background.mu.Lock()
	defer s.background.mu.Unlock()
	return s.background.running
}

// end cancels the build of a table and waits for its end.
func (b *background) end(tableUUID string) {
	b.mu.Lock()
	j := b.byTable[tableUUID]
	if at := slices.Index(b.queue, j); j != nil && at >= 0 {
		b.queue = slices.Delete(b.queue, at, at+1)
		j.err = errs.New(errs.Canceled, "overlay.build", "the table is gone", errs.On(j.o.table))
		delete(b.byTable, tableUUID)
		close(j.ended)
	}
	b.mu.Unlock()
	if j != nil {
		j.cancel()
		<-j.ended
	}
}

// stop cancels builds and waits for their end.
func (b *background) stop() {
	b.mu.Lock()
	if b.cancel == nil {
		b.mu.Unlock()
		return
	}
	b.cancel()
	running, done := b.running, b.done
	b.mu.Unlock()
	if running {
		<-done
	}
}

// Cover builds until the indexes cover the current snapshot, files that other processes are at work on included. It is what
// CREATE INDEX without async waits for.
func (o *Overlay) Cover(ctx context.Context, t *lake.Table, opts BuildOptions) (Report, error) {
	var sum Report
	for {
		r, err := o.Build(ctx, t, opts)
		sum.Files += r.Files
		sum.FilesDone += r.FilesDone
		sum.Rows += r.Rows
		sum.RowsDone += r.RowsDone
		sum.Bytes += r.Bytes
		sum.Skipped += r.Skipped
		if err != nil || r.Elsewhere == 0 {
			return sum, err
		}
		opts.Anew = false
		select {
		case <-ctx.Done():
			return sum, errs.Wrap(errs.Canceled, "overlay.build", ctx.Err())
		case <-time.After(time.Second):
		}
	}
}
