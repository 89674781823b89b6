package overlake

import (
	"errors"
	"math"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"time"
)

// The limit is there while builds run, higher for two than for one, and gone afterwards; one that somebody else set stays.
func TestGarbageIsBoundedWhileBuildsRun(t *testing.T) {
	limit := func() int64 { return debug.SetMemoryLimit(-1) }
	if limit() != math.MaxInt64 {
		t.Skip("GOMEMLIMIT is set")
	}
	var g garbage
	first := g.hold(100 << 20)
	one := limit()
	if one < 100<<20+garbageRoom || one > 1<<30 {
		t.Errorf("the limit of one build is %d", one)
	}
	second := g.hold(50 << 20)
	if two := limit(); two != one+50<<20 {
		t.Errorf("the limit of two builds is %d, of the first %d", two, one)
	}
	first()
	if left := limit(); left != one-50<<20 {
		t.Errorf("the limit of the second build is %d", left)
	}
	second()
	if limit() != math.MaxInt64 {
		t.Errorf("a limit of %d stays", limit())
	}

	debug.SetMemoryLimit(3 << 30)
	defer debug.SetMemoryLimit(math.MaxInt64)
	done := g.hold(100 << 20)
	if limit() != 3<<30 {
		t.Error("a limit that was there is replaced")
	}
	done()
	if limit() != 3<<30 {
		t.Error("a limit that was there is gone")
	}
}

// Builds of a DB tell what they may hold, those of vectors and of values, and that they have ended.
func TestBuildsTellWhatTheyHold(t *testing.T) {
	if debug.SetMemoryLimit(-1) != math.MaxInt64 {
		t.Skip("GOMEMLIMIT is set")
	}
	for _, on := range []bool{true, false} {
		var seen atomic.Int64
		db, err := Open(t.Context(), t.TempDir(), Options{IndexMemory: 40 << 20, BoundGarbage: on})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		do := func(q string) {
			t.Helper()
			rows, err := db.SQL(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			for rows.Next() {
			}
			if err := errors.Join(rows.Err(), rows.Close()); err != nil {
				t.Fatal(err)
			}
		}
		for _, q := range []string{"CREATE TABLE g (id BIGINT, v vector(2))", "INSERT INTO g SELECT i, [i, 1]::FLOAT[] FROM range(200000) t(i)"} {
			do(q)
		}
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for {
				select {
				case <-stop:
					return
				case <-time.After(100 * time.Microsecond):
					if l := debug.SetMemoryLimit(-1); l != math.MaxInt64 {
						seen.Store(l)
					}
				}
			}
		}()
		for _, q := range []string{"CREATE INDEX ON g (id)", "CREATE INDEX ON g USING hnsw (v vector_l2_ops)"} {
			seen.Store(0)
			do(q)
			if l := seen.Load(); on != (l >= 40<<20+garbageRoom) {
				t.Errorf("%s, bound %t: the limit was %d", q, on, l)
			}
			if l := debug.SetMemoryLimit(-1); l != math.MaxInt64 {
				t.Errorf("%s: a limit of %d stays", q, l)
			}
		}
		close(stop)
		<-stopped
	}
}
