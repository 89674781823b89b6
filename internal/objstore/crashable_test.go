package objstore_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/objstore"
)

// history writes random versions of a few names until the store fails. For each name it returns all versions in order;
// "" is absence, which each begins with. last is the name of the operation that failed.
func history(t *testing.T, s objstore.Store, rng *rand.Rand, length int) (versions map[string][]string, last string) {
	t.Helper()
	versions = map[string][]string{}
	for i := range length {
		name := fmt.Sprintf("n%d", rng.IntN(4))
		if versions[name] == nil {
			versions[name] = []string{""}
		}
		var err error
		data := fmt.Sprintf("%08d", i)
		switch rng.IntN(4) {
		case 0:
			data = ""
			err = s.Delete(t.Context(), name)
		case 1:
			var w objstore.Writer
			if w, err = s.Create(t.Context(), name, always); err == nil {
				if _, err = w.Write([]byte(data)); err == nil {
					_, err = w.Commit(t.Context())
				}
			}
		default:
			_, err = s.Put(t.Context(), name, []byte(data), always)
		}
		versions[name] = append(versions[name], data)
		if err != nil {
			if !errs.Is(err, errs.Unavailable) {
				t.Fatal(err)
			}
			return versions, name
		}
	}
	return versions, ""
}

func contents(t *testing.T, s objstore.Store) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, n := range names(t, s) {
		data, _, err := objstore.ReadAll(t.Context(), s, n, 100)
		if err != nil {
			t.Fatal(err)
		}
		out[n] = string(data)
	}
	return out
}

// TestCrash runs random histories into a crash at every write: what was acknowledged is there after the restart, and of
// the write in flight all or nothing, or half of it where torn writes are allowed.
func TestCrash(t *testing.T) {
	for _, mode := range []objstore.CrashMode{0, objstore.Torn} {
		seen := map[string]int{}
		for seed := range uint64(60) {
			for at := 1; at <= 8; at++ {
				c := objstore.NewCrashable("t", seed, mode)
				c.CrashAfter(at)
				versions, last := history(t, c, rand.New(rand.NewPCG(seed, 7)), 20)
				if !c.Crashed() || c.Writes() != at || last == "" {
					t.Fatalf("seed %d: crash planned at write %d of %d", seed, at, c.Writes())
				}
				got := contents(t, c.Restart())
				for name, v := range versions {
					now, before := v[len(v)-1], v[max(0, len(v)-2)]
					switch {
					case name != last && got[name] == now:
					case name == last && got[name] == now:
						seen["done"]++
					case name == last && got[name] == before:
						seen["not done"]++
					case name == last && mode == objstore.Torn && got[name] == now[:len(now)/2]:
						seen["torn"]++
					default:
						t.Fatalf("seed %d, crash at %d: %s is %q after %q", seed, at, name, got[name], v)
					}
				}
			}
		}
		if seen["done"] == 0 || seen["not done"] == 0 || (seen["torn"] > 0) != (mode == objstore.Torn) {
			t.Errorf("mode %d has seen %v", mode, seen)
		}
	}
}

// TestCrashOfUnsynced checks that every name comes back in the version of the last Sync or in a later one.
func TestCrashOfUnsynced(t *testing.T) {
	lost := 0
	for seed := range uint64(200) {
		c := objstore.NewCrashable("t", seed, objstore.Unsynced)
		rng := rand.New(rand.NewPCG(seed, 9))
		history(t, c, rng, 10)
		c.Sync()
		synced := contents(t, c)
		versions, _ := history(t, c, rng, 10)
		live := contents(t, c)
		c.Crash()
		got := contents(t, c.Restart())
		for name, v := range versions {
			ok := got[name] == synced[name]
			for _, later := range v[1:] {
				ok = ok || got[name] == later
			}
			if !ok {
				t.Errorf("seed %d: %s is %q, synced was %q, then %q", seed, name, got[name], synced[name], v[1:])
			}
			if got[name] != live[name] {
				lost++
			}
		}
		for name, v := range synced {
			if versions[name] == nil && got[name] != v {
				t.Errorf("seed %d: the synced %s is %q", seed, name, got[name])
			}
		}
	}
	if lost == 0 {
		t.Error("no crash lost anything that was not synced")
	}
}

func TestCrashedStoreAnswersNothing(t *testing.T) {
	c := objstore.NewCrashable("t", 1)
	put(t, c, "a", "1")
	o, err := c.Open(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	w, err := c.Create(t.Context(), "b", always)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("1")); err != nil {
		t.Fatal(err)
	}
	c.Crash()
	_, openErr := c.Open(t.Context(), "a")
	_, statErr := c.Stat(t.Context(), "a")
	_, putErr := c.Put(t.Context(), "a", nil, always)
	_, createErr := c.Create(t.Context(), "a", always)
	_, commitErr := w.Commit(t.Context())
	_, readErr := o.ReadAt(make([]byte, 1), 0)
	deleteErr := c.Delete(t.Context(), "a")
	var listErr error
	for _, err := range c.List(t.Context(), "") {
		listErr = err
	}
	for what, err := range map[string]error{"Open": openErr, "Stat": statErr, "Put": putErr, "Create": createErr, "Commit": commitErr,
		"ReadAt": readErr, "Delete": deleteErr, "List": listErr} {
		if !errs.Is(err, errs.Unavailable) {
			t.Errorf("%s gives %v", what, err)
		}
	}
	if got := contents(t, c.Restart()); len(got) != 1 || got["a"] != "1" {
		t.Errorf("after the restart there is %v", got)
	}
}

// TestCrashJudgesConditions checks that a write that loses its condition changes nothing even when it is in flight.
func TestCrashJudgesConditions(t *testing.T) {
	for seed := range uint64(20) {
		c := objstore.NewCrashable("t", seed, objstore.Torn)
		put(t, c, "a", "1")
		c.CrashAfter(1)
		if _, err := c.Put(t.Context(), "a", []byte("2"), objstore.Condition{IfAbsent: true}); err == nil {
			t.Error("a write was acknowledged in the crash")
		}
		r := c.Restart()
		if got := contents(t, r); got["a"] != "1" {
			t.Errorf("seed %d: a refused write changed the object to %q", seed, got["a"])
		}
		// The next process writes on, and no ETag of the last one comes back.
		before, err := r.Stat(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if after := put(t, r, "a", "3"); after.ETag == before.ETag {
			t.Error("an ETag came back")
		}
	}
}
