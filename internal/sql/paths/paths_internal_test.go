package paths

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
)

// TestPaths: paths are made once, used ones stay, and of the others only the newest do.
func TestPaths(t *testing.T) {
	p := New(3)
	made, open := 0, map[string]bool{}
	var mu sync.Mutex
	use := func(names ...string) (func(), []string) {
		t.Helper()
		files := make([]Place, len(names))
		for i, n := range names {
			files[i] = Place{Name: n}
		}
		got, done, err := p.Use(files, func(i int) (string, func(), error) {
			mu.Lock()
			defer mu.Unlock()
			made++
			name := fmt.Sprintf("%s#%d", names[i], made)
			open[name] = true
			return name, func() { mu.Lock(); defer mu.Unlock(); delete(open, name) }, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, n := range got {
			if !open[n] {
				t.Errorf("%s is closed and was given out", n)
			}
		}
		return done, got
	}
	doneA, first := use("a", "b", "c", "d", "e")
	if len(open) != 5 {
		t.Errorf("%d paths are open while a statement runs on five", len(open))
	}
	doneB, again := use("e", "a")
	if made != 5 || !slices.Equal(again, []string{first[4], first[0]}) {
		t.Errorf("the same files got the paths %v, then %v", first, again)
	}
	doneA()
	if len(open) != 3 || !open[first[0]] || !open[first[4]] || !open[first[3]] {
		t.Errorf("the paths %v are left of %v", open, first)
	}
	doneB()
	doneC, _ := use("b")
	doneC()
	if made != 6 || len(open) != 3 {
		t.Errorf("%d paths were made and %d are open", made, len(open))
	}
	if _, _, err := p.Use([]Place{{Name: "e"}, {Name: "new"}}, func(int) (string, func(), error) { return "", nil, errors.New("no") }); err == nil {
		t.Error("a file that cannot be reached was given out")
	}
	for _, k := range p.known {
		if k.users != 0 {
			t.Errorf("%s has %d users", k.name, k.users)
		}
	}
	var group sync.WaitGroup
	for g := range 8 {
		group.Go(func() {
			for i := range 200 {
				done, _ := use(fmt.Sprint((g+i)%7), fmt.Sprint(i%5))
				done()
			}
		})
	}
	group.Wait()
	if len(open) != 3 || len(p.known) != 3 || p.order.Len() != 3 {
		t.Errorf("%d paths are open, %d known", len(open), len(p.known))
	}
}
