package budget_test

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/overlakedb/overlake/internal/budget"
	"github.com/overlakedb/overlake/internal/errs"
)

func try(t *testing.T, b *budget.Budget, n int64) *budget.Reservation {
	t.Helper()
	r, err := b.TryReserve(n)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func wantExhausted(t *testing.T, err error) {
	t.Helper()
	if !errs.Is(err, errs.Exhausted) || errs.HintOf(err) == "" {
		t.Errorf("got %v with the hint %q", err, errs.HintOf(err))
	}
}

func TestLimits(t *testing.T) {
	b := budget.New(100)
	if b.Limit() != 100 || b.Used() != 0 {
		t.Errorf("a new budget: %d of %d", b.Used(), b.Limit())
	}
	r := try(t, b, 60)
	_, err := b.TryReserve(41)
	wantExhausted(t, err)
	s := try(t, b, 40)
	wantExhausted(t, s.Grow(1))
	if s.Size() != 40 || b.Used() != 100 {
		t.Errorf("a refused growth took something: %d, %d", s.Size(), b.Used())
	}
	r.Shrink(10)
	if err := s.Grow(10); err != nil || s.Size() != 50 || r.Size() != 50 {
		t.Errorf("after shrinking: %v, %d, %d", err, s.Size(), r.Size())
	}
	for range 3 {
		r.Release()
	}
	if b.Used() != 50 || b.Peak() != 100 || r.Size() != 0 {
		t.Errorf("released: %d used, peak %d", b.Used(), b.Peak())
	}
	if err := r.Grow(1); !errs.Is(err, errs.Invalid) {
		t.Errorf("growing what was released: %v", err)
	}
	s.Shrink(-5)
	s.Shrink(1000)
	if b.Used() != 0 {
		t.Errorf("%d stay used", b.Used())
	}
	if err := s.Grow(7); err != nil || b.Used() != 7 {
		t.Errorf("what shrank to nothing may grow: %v", err)
	}
}

func TestWhatCanNeverFit(t *testing.T) {
	b := budget.New(100)
	c := b.Child("query", 1000)
	for _, n := range []int64{101, math.MaxInt64} {
		_, err := b.Reserve(t.Context(), n)
		wantExhausted(t, err)
		_, err = c.Reserve(t.Context(), n)
		wantExhausted(t, err)
		_, err = b.TryReserve(n)
		wantExhausted(t, err)
	}
	r := try(t, b, 1)
	wantExhausted(t, r.Grow(math.MaxInt64))
	for _, err := range []error{
		r.Grow(-1),
		func() error { _, err := b.TryReserve(-1); return err }(),
		func() error { _, err := b.Reserve(t.Context(), math.MinInt64); return err }(),
	} {
		if !errs.Is(err, errs.Invalid) {
			t.Errorf("a negative amount gives %v", err)
		}
	}
	for _, limit := range []int64{0, -5} {
		none := budget.New(limit)
		try(t, none, 0).Release()
		_, err := none.TryReserve(1)
		wantExhausted(t, err)
	}
	var nothing *budget.Reservation
	nothing.Release()
	nothing.Shrink(1)
	if nothing.Size() != 0 || !errs.Is(nothing.Grow(1), errs.Invalid) {
		t.Error("nil holds something")
	}
}

func TestChildrenCountForTheirParents(t *testing.T) {
	b := budget.New(100)
	q1, q2 := b.Child("q1", 60), b.Child("q2", 60)
	r := try(t, q1, 60)
	_, err := q1.TryReserve(1)
	wantExhausted(t, err)
	_, err = q2.TryReserve(50)
	wantExhausted(t, err)
	s := try(t, q2, 40)
	if b.Used() != 100 || q1.Used() != 60 || q2.Used() != 40 {
		t.Errorf("used are %d, %d, %d", b.Used(), q1.Used(), q2.Used())
	}
	r.Release()
	wantExhausted(t, s.Grow(21))
	if err := s.Grow(20); err != nil || b.Used() != 60 {
		t.Errorf("%v, %d", err, b.Used())
	}
}

// TestWaitersComeInOrder checks B3 and B4.
func TestWaitersComeInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget.New(100)
		other := b.Child("other", 10)
		holder := try(t, b, 50)
		var mu sync.Mutex
		var order []string
		got := map[string]*budget.Reservation{}
		ask := func(name string, b *budget.Budget, n int64) {
			go func() {
				r, err := b.Reserve(t.Context(), n)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, name)
				got[name] = r
			}()
			synctest.Wait()
		}
		want := func(names ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(order, names) {
				t.Fatalf("served are %q, want %q", order, names)
			}
		}
		ask("large", b, 80)
		ask("small", b, 10)
		want()
		if b.Waiting() != 2 || other.Waiting() != 0 {
			t.Errorf("%d wait", b.Waiting())
		}
		_, err := b.TryReserve(10)
		wantExhausted(t, err)
		if err := holder.Grow(10); err != nil {
			t.Errorf("a holder must not wait behind waiters: %v", err)
		}
		if r, err := b.Reserve(t.Context(), 0); err != nil {
			t.Errorf("nothing always fits: %v", err)
		} else {
			r.Release()
		}
		holder.Shrink(40)
		want("large")
		holder.Shrink(20)
		want("large", "small")
		got["small"].Release()
		got["large"].Release()
		holder.Release()

		// Who waits for a full child does not hold up its siblings.
		full := try(t, other, 10)
		ask("child", other, 5)
		try(t, b, 90).Release()
		ask("sibling", b.Child("sibling", 100), 20)
		want("large", "small", "sibling")
		full.Release()
		want("large", "small", "sibling", "child")
	})
}

func TestWaitingEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget.New(100)
		holder := try(t, b, 50)
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		done := make(chan struct{})
		go func() {
			defer close(done)
			if _, err := b.Reserve(ctx, 80); !errs.Is(err, errs.Canceled) {
				t.Errorf("got %v", err)
			}
		}()
		synctest.Wait()
		served := make(chan *budget.Reservation, 1)
		go func() {
			r, err := b.Reserve(t.Context(), 20)
			if err != nil {
				t.Error(err)
			}
			served <- r
		}()
		<-done
		(<-served).Release() // the one behind it goes on
		if _, err := b.Reserve(ctx, 1); !errs.Is(err, errs.Canceled) {
			t.Errorf("an ended context reserves: %v", err)
		}
		holder.Release()
		if b.Used() != 0 || b.Waiting() != 0 {
			t.Errorf("left are %d used and %d waiting", b.Used(), b.Waiting())
		}
	})
}

// TestNothingIsLostInACrowd reserves, grows, gives back and gives up from many goroutines under a tree of budgets.
func TestNothingIsLostInACrowd(t *testing.T) {
	root := budget.New(1000)
	budgets := []*budget.Budget{root, root.Child("a", 400), root.Child("b", 700)}
	budgets = append(budgets, budgets[1].Child("aa", 300))
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 3))
			for range 300 {
				b := budgets[rng.IntN(len(budgets))]
				ctx, stop := context.WithTimeout(context.Background(), time.Duration(rng.IntN(500))*time.Microsecond)
				r, err := b.Reserve(ctx, rng.Int64N(b.Limit()/2))
				if err == nil {
					_ = r.Grow(rng.Int64N(50)) // may be refused
					r.Shrink(rng.Int64N(20))
					if used, limit := b.Used(), b.Limit(); used < r.Size() || used > limit {
						t.Errorf("%d of %d are used", used, limit)
					}
					r.Release()
				} else if !errs.Is(err, errs.Canceled) {
					t.Error(err)
				}
				stop()
			}
		})
	}
	wg.Wait()
	for i, b := range budgets {
		if b.Used() != 0 || b.Waiting() != 0 || b.Peak() > b.Limit() {
			t.Errorf("budget %d ends with %d used, %d waiting, peak %d", i, b.Used(), b.Waiting(), b.Peak())
		}
	}
}
