package search_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/objstore"
	"github.com/overlakedb/overlake/internal/overlay"
	"github.com/overlakedb/overlake/internal/testenv"
)

// history is a table with indexes, to which things happen.
type history struct {
	t     *testing.T
	rng   *rand.Rand
	store *objstore.Crashable
	s     *overlay.Set
	table *lake.Table
	names int
	log   []string
	next  int64
}

// seedOf is the seed of a run: OVERLAKE_SEED, else a new one, which is logged.
func seedOf(t *testing.T) uint64 {
	seed := rand.Uint64()
	if s, err := strconv.ParseUint(os.Getenv("OVERLAKE_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("OVERLAKE_SEED=%d", seed)
	return seed
}

// Random histories: whatever happens to table and indexes, in this process and in those before it, the indexes answer as a
// scan of all rows does.
func TestRandomHistories(t *testing.T) {
	histories, steps := 6, 60
	if os.Getenv(testenv.DeepVar) != "" {
		histories, steps = 100, 400
	} else if testing.Short() {
		histories = 2
	}
	seed := seedOf(t)
	fetched, scanned, alone := 0, 0, 0
	for n := range histories {
		h := &history{t: t, rng: rand.New(rand.NewPCG(seed, uint64(n)))}
		u := h.run(fmt.Sprintf("seed %d, history %d", seed, n), steps)
		fetched, scanned, alone = fetched+u.fetched, scanned+u.scanned, alone+min(u.different, u.first)
	}
	if fetched < 10*histories || scanned < 10*histories || alone == 0 {
		t.Errorf("%d files fetched from, %d scanned, %d answered alone: that proves little", fetched, scanned, alone)
	}
}

func (h *history) run(name string, steps int) usage {
	t := h.t
	h.store = objstore.NewCrashable("t", h.rng.Uint64())
	h.s = overlay.NewSet(h.store, overlay.Options{SpillDir: t.TempDir(), Cache: []int64{0, 1, 4096}[h.rng.IntN(3)]})
	h.table = newTable(t, h.store, "h0")
	u := usage{}
	for step := range steps {
		what, err := h.step()
		h.log = append(h.log, what)
		fail := func(err error) {
			t.Helper()
			t.Fatalf("%s, step %d: %v\n%q", name, step, err, h.log)
		}
		if err != nil {
			fail(err)
		}
		got, err := h.ask()
		for h.store.Crashed() { // before, or while a build behind goes on
			h.log = append(h.log, "crash")
			if err := h.reopen(true); err != nil {
				fail(err)
			}
			got, err = h.ask()
		}
		if err != nil {
			fail(err)
		}
		u.fetched, u.pruned, u.scanned, u.summed, u.first = u.fetched+got.fetched, u.pruned+got.pruned, u.scanned+got.scanned, u.summed+got.summed, u.first+got.first
		u.different += got.different
	}
	h.s.Close()
	t.Logf("%s: %+v", name, u)
	return u
}

// ask compares the indexes with a scan.
func (h *history) ask() (usage, error) {
	ctx := h.t.Context()
	plan, err := h.table.Plan(ctx, lake.Ref{}, nil)
	if err != nil {
		return usage{}, err
	}
	rows, err := contents(ctx, h.table, plan)
	if err != nil {
		return usage{}, err
	}
	return answers(ctx, h.s, h.table, rows, questions(h.rng.Int64N(h.next+2), h.rng.Int64N(h.next+2)))
}

// reopen goes on as another process, after a crash perhaps.
func (h *history) reopen(crashed bool) error {
	if crashed {
		h.s.Close()
		h.store = h.store.Restart()
		expire(h.t, h.store)
	} else if err := h.s.Close(); err != nil {
		return err
	}
	h.s = overlay.NewSet(h.store, overlay.Options{SpillDir: h.t.TempDir()})
	cat := lake.OpenFileCatalog(h.store)
	table, err := cat.Load(h.t.Context(), h.table.Ident())
	if errs.Is(err, errs.NotFound) { // it was being made or dropped
		h.names++
		h.table = newTable(h.t, h.store, fmt.Sprint("h", h.names))
		return nil
	}
	h.table = table
	return err
}

// step does one thing. What fails because the store has crashed is no error.
func (h *history) step() (string, error) {
	t, ctx, rng := h.t, h.t.Context(), h.rng
	o := h.s.Of(h.table)
	crashing := func(err error, also ...errs.Kind) error {
		for _, k := range append(also, errs.NotFound, errs.Exists) {
			if errs.Is(err, k) {
				return nil
			}
		}
		if h.store.Crashed() {
			return nil
		}
		return err
	}
	if rng.IntN(12) == 0 {
		h.store.CrashAfter(1 + rng.IntN(12))
	}
	some := func() overlay.Spec { return specs[rng.IntN(len(specs))] }
	switch k := rng.IntN(24); k {
	case 0, 1, 2, 3:
		n := 1 + rng.IntN(40)
		next, _, err := h.table.Append(ctx, recordsOf(made(h.next, n, rng.IntN(n))), lake.WriteOptions{})
		h.next += int64(n)
		if err == nil {
			h.table = next
		}
		return "append", crashing(err)
	case 4:
		next, _, err := h.table.Overwrite(ctx, recordsOf(made(rng.Int64N(h.next+1), 30, rng.IntN(30))), lake.WriteOptions{})
		if err == nil {
			h.table = next
		}
		return "overwrite", crashing(err)
	case 5:
		plan, err := h.table.Plan(ctx, lake.Ref{}, nil)
		if err != nil || len(plan.Files) == 0 {
			return "delete nothing", crashing(err)
		}
		if h.s.Busy() {
			return "delete nothing", nil
		}
		h.store.CrashAfter(0) // remove would fail the test
		if h.store.Crashed() {
			return "delete", nil
		}
		h.table = remove(t, h.table, 2+rng.Int64N(20))
		return "delete", nil
	case 6, 7, 8, 9, 10:
		d := some()
		_, err := o.Define(ctx, h.table, d)
		return "define " + d.Name, crashing(err)
	case 11:
		d := some()
		return "drop " + d.Name, crashing(o.Drop(ctx, d.Name))
	case 12:
		a, b := some().Name, some().Name
		return "rename " + a + " to " + b, crashing(o.Rename(ctx, a, b))
	case 13:
		_, err := o.Alter(ctx, "bloom", map[string]string{"fpr": []string{"0.1", "0.01", "0.3"}[rng.IntN(3)]})
		return "alter", crashing(err, errs.Invalid) // the name may be that of another kind
	case 14, 15, 16, 17:
		_, err := o.Build(ctx, h.table, overlay.BuildOptions{})
		return "build", crashing(err)
	case 18:
		_, err := o.Build(ctx, h.table, overlay.BuildOptions{Anew: true})
		return "build anew", crashing(err)
	case 19, 20:
		h.s.Start(h.table)
		if rng.IntN(2) == 0 {
			time.Sleep(time.Duration(rng.IntN(3)) * time.Millisecond)
			return "build behind", nil
		}
		return "build behind and wait", crashing(h.s.Wait(ctx, h.table))
	case 21:
		if rng.IntN(3) > 0 {
			return "nothing", nil
		}
		if err := h.s.WaitAll(ctx); err != nil {
			return "wait", crashing(err)
		}
		err := lake.OpenFileCatalog(h.store).Drop(ctx, h.table.Ident())
		if err == nil {
			err = h.s.Remove(ctx, h.table.UUID())
		}
		if err != nil {
			return "drop table", crashing(err)
		}
		if !h.store.Crashed() {
			// The same name again, or another.
			h.names += rng.IntN(2)
			h.store.CrashAfter(0)
			h.table = newTable(t, h.store, fmt.Sprint("h", h.names))
		}
		return "drop table", nil
	case 22:
		_, err := o.Collect(ctx, h.table)
		return "collect", crashing(err)
	}
	return "reopen", crashing(h.reopen(false))
}
