package objstore_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/objstore"
)

func quota(t *testing.T, s objstore.Store, limit int64) objstore.Store {
	t.Helper()
	q, err := objstore.NewQuota(t.Context(), s, limit)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func used(t *testing.T, s objstore.Store) int64 {
	t.Helper()
	return s.(interface{ Used() int64 }).Used()
}

func TestQuota(t *testing.T) {
	base := openLocal(t)
	put(t, base, "old", strings.Repeat("x", 40))
	s := quota(t, base, 100)
	put(t, s, "a", strings.Repeat("x", 60))
	_, err := s.Put(t.Context(), "b", make([]byte, 1), always)
	wantKindAndHint(t, err, errs.Exhausted)
	if _, err := s.Stat(t.Context(), "b"); !errs.Is(err, errs.NotFound) {
		t.Errorf("a refused write left %v", err)
	}
	if err := s.Delete(t.Context(), "old"); err != nil {
		t.Fatal(err)
	}
	w, err := s.Create(t.Context(), "c", always)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 30)); err != nil {
		t.Fatal(err)
	}
	_, err = w.Write(make([]byte, 30))
	wantKindAndHint(t, err, errs.Exhausted)
	if used(t, s) != 90 {
		t.Errorf("with a stream under way %d bytes are used", used(t, s))
	}
	if err := w.Abort(); err != nil {
		t.Fatal(err)
	}
	if used(t, s) != 60 {
		t.Errorf("after Abort %d bytes are used", used(t, s))
	}
	put(t, s, "a", "small")
	if used(t, s) != 5 {
		t.Errorf("after replacing by less %d bytes are used", used(t, s))
	}
	_, err = s.Put(t.Context(), "a", make([]byte, 90), objstore.Condition{IfAbsent: true})
	if !errs.Is(err, errs.Exists) || used(t, s) != 5 {
		t.Errorf("a lost race gave %v and %d bytes", err, used(t, s))
	}
	put(t, s, "d", strings.Repeat("x", 95))
	for range 2 {
		if err := s.Delete(t.Context(), "d"); err != nil {
			t.Fatal(err)
		}
	}
	if used(t, s) != 5 {
		t.Errorf("after deleting twice %d bytes are used", used(t, s))
	}
	if _, ok := s.(objstore.LocalPather); !ok {
		t.Error("a quota hides local paths")
	}
	if _, ok := s.(objstore.Sweeper); !ok {
		t.Error("a quota hides sweeping")
	}
	if _, ok := quota(t, objstore.NewMemory("m"), 1).(objstore.LocalPather); ok {
		t.Error("a quota invents local paths")
	}
	if _, err := objstore.NewQuota(t.Context(), base, -1); !errs.Is(err, errs.Invalid) {
		t.Errorf("a negative quota gave %v", err)
	}
}

// TestQuotaKnowsWhatLostAnswersStored counts writes that happened although they failed, and not those that did not.
func TestQuotaKnowsWhatLostAnswersStored(t *testing.T) {
	m := objstore.NewMemory("t")
	for script, want := range map[string]int64{"unknown put *": 10, "tear put *": 5, "fail put *": 0, "full put *": 0} {
		f := faulty(t, m, script)
		q := quota(t, f, 100)
		if _, err := q.Put(t.Context(), "x", make([]byte, 10), always); err == nil {
			t.Errorf("%s worked", script)
		}
		if used(t, q) != want {
			t.Errorf("%s leaves %d bytes used, want %d", script, used(t, q), want)
		}
		if err := m.Delete(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestQuotaSeesOthers deletes behind the quota's back: before it refuses, it counts anew, but not all the time.
func TestQuotaSeesOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := objstore.NewMemory("t")
		q := quota(t, m, 100)
		put(t, q, "x", strings.Repeat("x", 100))
		if err := m.Delete(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		if _, err := q.Put(t.Context(), "y", make([]byte, 50), always); !errs.Is(err, errs.Exhausted) {
			t.Errorf("just after the start: %v", err)
		}
		time.Sleep(2 * time.Second)
		put(t, q, "y", strings.Repeat("x", 50))
		if used(t, q) != 50 {
			t.Errorf("%d bytes are used", used(t, q))
		}
	})
}

func TestQuotaCountsConcurrentChanges(t *testing.T) {
	m := objstore.NewMemory("t")
	// Slow enough for changes of one name to overlap if they could.
	q := quota(t, faulty(t, m, "delay=50us put * \n delay=20us stat *"), 1<<20)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 200 {
				name := fmt.Sprint("n", (g+i)%5)
				if i%3 == 0 {
					if err := q.Delete(t.Context(), name); err != nil {
						t.Error(err)
					}
				} else if _, err := q.Put(t.Context(), name, make([]byte, g*10+i), always); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	var sum int64
	for info, err := range m.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		sum += info.Size
	}
	if used(t, q) != sum {
		t.Errorf("%d bytes are counted, %d are there", used(t, q), sum)
	}
}
