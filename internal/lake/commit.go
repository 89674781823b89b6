package lake

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/objstore"
)

// How a change becomes a version:
//
//	 1. plan it against the newest version known; write its manifests; note every object in a ledger
//	 2. find every object of the ledger again, whole (L1)
//	 3. let the catalog swap its pointer, if the planned version still is the newest
//	 4. swap lost: remove what step 1 wrote, wait a little, load the newest version, and begin again at 1
//
// A process that dies in 1 to 3 leaves unreferenced objects and the old version. When the answer to 3 is lost and cannot be
// looked up either, the outcome is unknown: nothing is removed, because the new version may name it.

const (
	// maxCommitTries bounds how often a lost race is planned again.
	maxCommitTries = 30
	// maxCommitPause bounds the pause before that.
	maxCommitPause = 64 * time.Millisecond
	// swapTimeout bounds step 3, which runs on when the caller gives up: half a swap helps nobody.
	swapTimeout = 60 * time.Second
)

// writable refuses what this room does not write: read-only tables, and format version 1.
func (t *Table) writable() error {
	if t.cat == nil {
		return denied(t.id)
	}
	if v := t.meta.Version(); v != 2 && v != 3 {
		return errs.New(errs.Unsupported, "lake.write", fmt.Sprintf("tables of format version %d are read, not written", v), errs.On(t.id.String()),
			errs.Hint("copy it with CREATE TABLE new AS SELECT * FROM %s", t.id.Name))
	}
	return nil
}

// ledger notes the objects that a write has made and metadata is about to name.
type ledger struct {
	mu   sync.Mutex
	size map[string]int64
}

// note adds an object, or gives a noted one its final size; -1 means that the size is not known yet.
func (l *ledger) note(name string, size int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size == nil {
		l.size = map[string]int64{}
	}
	l.size[name] = size
}

// verify finds every object again, whole (L1). A store that does not have one is Unavailable; see dropped.
func (l *ledger) verify(ctx context.Context, store objstore.Reader) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, size := range l.size {
		info, err := store.Stat(ctx, name)
		if errs.Is(err, errs.NotFound) || err == nil && info.Size != size {
			return errs.New(errs.Unavailable, "lake.verify", "the store does not have the object that was just written to it", errs.On(name))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// dropped explains why a table's new objects are gone when its directory was swept meanwhile; any other error it leaves.
func (t *Table) dropped(ctx context.Context, err error) error {
	if err == nil || !errs.Is(err, errs.Unavailable) {
		return err
	}
	now, lerr := t.cat.Load(ctx, t.id)
	if errs.Is(lerr, errs.NotFound) {
		return lerr
	}
	if lerr == nil && now.UUID() != t.UUID() {
		return anew(t.id)
	}
	return err
}

func anew(id Ident) error {
	return errs.New(errs.NotFound, "lake.commit", "the table was dropped and created anew meanwhile", errs.On(id.String()))
}

// remove deletes the objects, as far as the store lets it: what remains is unreferenced and harmless.
func (l *ledger) remove(ctx context.Context, store objstore.Store) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ctx = context.WithoutCancel(ctx)
	for name := range l.size {
		_ = store.Delete(ctx, name)
	}
	clear(l.size)
}

// unknownOutcome marks the error of a pointer swap that may have happened all the same.
type unknownOutcome struct{ error }

func (u unknownOutcome) Unwrap() error { return u.error }

func outcomeUnknown(err error) bool {
	var u unknownOutcome
	return errors.As(err, &u)
}

// unknown is the error of a commit whose answer is lost for good.
func unknown(id Ident, err error) error {
	return errs.Wrap(errs.Unavailable, "lake.commit", unknownOutcome{err}, errs.On(id.String()),
		errs.Hint("the commit may have happened: look at the newest snapshot before you try again"))
}

// swapContext is the context of a pointer swap: it does not end with the caller's.
func swapContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), swapTimeout)
}

// lasting marks a Conflict that planning again cannot mend.
type lasting struct{ error }

func (l lasting) Unwrap() error { return l.error }

// commitRetrying runs an operation on the newest version until it does not lose a race. The operation notes what it writes
// besides data files.
func (t *Table) commitRetrying(ctx context.Context, op func(cur *Table, made *ledger) (*Table, error)) (*Table, error) {
	cur := t
	for try := 1; ; try++ {
		if err := ctx.Err(); err != nil {
			return nil, errs.Wrap(errs.Canceled, "lake.commit", err, errs.On(t.id.String()))
		}
		made := &ledger{}
		next, err := op(cur, made)
		if err == nil {
			return next, nil
		}
		if !outcomeUnknown(err) {
			made.remove(ctx, t.io.writable)
		}
		var forGood lasting
		if errors.As(err, &forGood) {
			return nil, forGood.error
		}
		if !errs.Is(err, errs.Conflict) {
			return nil, err
		}
		if try == maxCommitTries {
			return nil, errs.With(err, errs.Hint("%d attempts lost against other writers; use fewer writers or bigger writes", try))
		}
		select {
		case <-time.After(rand.N(min(maxCommitPause, time.Duration(try)*8*time.Millisecond))):
		case <-ctx.Done():
			return nil, errs.Wrap(errs.Canceled, "lake.commit", ctx.Err(), errs.On(t.id.String()))
		}
		if cur, err = t.cat.Load(ctx, t.id); err != nil {
			return nil, err
		}
		if cur.UUID() != t.UUID() {
			return nil, anew(t.id)
		}
	}
}

// ice is the table as iceberg-go knows it. Its catalog is nil: commits are ours. What iceberg-go writes is noted.
func (t *Table) ice(ctx context.Context, made *ledger) *table.Table {
	return table.New(table.Identifier{t.id.Namespace, t.id.Name}, t.meta, t.location, func(context.Context) (iceio.IO, error) {
		return writer{t.io.with(ctx), made}, nil
	}, nil)
}

// commitTx hands the updates of a transaction to the catalog, without iceberg-go's own commit and its retries (L2).
func (t *Table) commitTx(ctx context.Context, tx *table.Transaction, made *ledger) (*Table, error) {
	c, err := tx.TableCommit()
	if err != nil {
		return nil, errs.Wrap(errs.Internal, "lake.commit", err, errs.On(t.id.String()))
	}
	return t.commitUpdates(ctx, c.Requirements, c.Updates, made)
}

// commitUpdates is the last step of every change: what it names is found again, then the pointer moves.
func (t *Table) commitUpdates(ctx context.Context, reqs []table.Requirement, updates []table.Update, made *ledger) (*Table, error) {
	if err := made.verify(ctx, t.io.store); err != nil {
		return nil, t.dropped(ctx, err)
	}
	if err := ctx.Err(); err != nil { // the last chance to give up
		return nil, errs.Wrap(errs.Canceled, "lake.commit", err, errs.On(t.id.String()))
	}
	return t.cat.commit(ctx, t, reqs, updates)
}

// applyUpdates checks the requirements of a commit and makes its metadata. iceberg-go's catalogs report a requirement that
// does not hold as a plain error, which nobody can tell from a broken request; here it is a Conflict.
func applyUpdates(t *Table, reqs []table.Requirement, updates []table.Update) (table.Metadata, error) {
	for _, r := range reqs {
		if err := r.Validate(t.meta); err != nil {
			return nil, errs.Wrap(errs.Conflict, "lake.commit", err, errs.On(t.id.String()))
		}
	}
	meta, err := table.UpdateTableMetadata(t.meta, updates, t.location)
	if err != nil {
		return nil, errs.Wrap(errs.Invalid, "lake.commit", err, errs.On(t.id.String()))
	}
	return meta, keepContracts(t.meta, meta)
}
