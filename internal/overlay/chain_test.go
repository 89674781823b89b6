package overlay_test

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/objstore"
	"github.com/overlakedb/overlake/internal/overlay"
)

// chainEdits publishes n random versions and gives what each of them says; number 0 says nothing.
func chainEdits(t testing.TB, store objstore.Store, seed uint64, n int) []manifestModel {
	t.Helper()
	w := &manifestWorld{rng: rand.New(rand.NewPCG(seed, 1))}
	c := overlay.OpenChain(store, manifestPrefix)
	history := []manifestModel{{}}
	for len(history) <= n {
		m := history[len(history)-1]
		e, err := w.edit(t.Context(), store, m)
		if err != nil {
			t.Fatal(err)
		}
		if emptyEdit(e) {
			continue
		}
		v, err := c.Update(t.Context(), store, func(*overlay.Version) (overlay.Edit, error) { return e, nil })
		if err != nil {
			t.Fatal(err)
		}
		history = append(history, m.apply(e))
		if err := history[len(history)-1].holds(v); err != nil {
			t.Fatal(err)
		}
	}
	return history
}

func chainLoad(t testing.TB, c *overlay.Chain) *overlay.Version {
	t.Helper()
	v, err := c.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func noEdit(*overlay.Version) (overlay.Edit, error) { return overlay.Edit{}, nil }

// chainCopy makes a store with the same objects.
func chainCopy(t testing.TB, from objstore.Reader) (*objstore.Memory, []string) {
	t.Helper()
	to := objstore.NewMemory("copy")
	var names []string
	for info, err := range from.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		data, _, err := objstore.ReadAll(t.Context(), from, info.Name, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := to.Put(t.Context(), info.Name, data, objstore.Condition{}); err != nil {
			t.Fatal(err)
		}
		names = append(names, info.Name)
	}
	return to, names
}

// TestDamagedManifest flips every byte of every object and removes every object. Nothing fails; what is given out is what was
// published; damage of what the newest version needs is reported; and the next publish ends it.
func TestDamagedManifest(t *testing.T) {
	store := objstore.NewMemory("t")
	history := chainEdits(t, store, 3, 9)
	whole, names := chainCopy(t, store)
	newest := history[len(history)-1]
	head := func(n int64) string { return fmt.Sprintf("%s/v%d.json", manifestPrefix, n) }
	chunks, damaged := 0, 0
	check := func(what string, removed bool, name string, repair bool) {
		t.Helper()
		c := overlay.OpenChain(whole, manifestPrefix)
		v, err := c.Load(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		switch {
		case name == head(newest.number):
			// The version before it is what there is. When it is removed, nobody can know of it.
			last := history[len(history)-2]
			if removed {
				if err := last.holds(v); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				break
			}
			if err := last.same(v); err != nil || len(v.Damage) != 1 || v.Number != newest.number {
				t.Fatalf("%s: version %d with damage %v: %v", what, v.Number, v.Damage, err)
			}
		case len(v.Damage) > 0:
			damaged++
			if !strings.Contains(name, "/chunks/") || len(v.Damage) != 1 || !errs.Is(v.Damage[0], errs.Corrupt) && !errs.Is(v.Damage[0], errs.NotFound) {
				t.Fatalf("%s: damage %v", what, v.Damage)
			}
			if got := v.Definitions(); !reflect.DeepEqual(got, newest.definitions) {
				t.Fatalf("%s: definitions %v", what, got)
			}
			// What is left is as it was, in order.
			rest := newest.artifacts
			for _, a := range v.Artifacts() {
				i := slices.IndexFunc(rest, func(b overlay.Artifact) bool { return reflect.DeepEqual(*a, b) })
				if i < 0 {
					t.Fatalf("%s: it gives the artifact %+v", what, *a)
				}
				rest = rest[i+1:]
			}
			if v.Len() == len(newest.artifacts) {
				t.Fatalf("%s: nothing is missing", what)
			}
		default:
			if err := newest.holds(v); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
		if !repair || len(v.Damage) == 0 {
			return
		}
		mended, err := c.Update(t.Context(), whole, noEdit)
		if err != nil {
			t.Fatalf("%s: the next publish: %v", what, err)
		}
		again := chainLoad(t, overlay.OpenChain(whole, manifestPrefix))
		if again.Number != newest.number+1 || len(again.Damage) > 0 || again.Len() != v.Len() || mended.Number != again.Number {
			t.Fatalf("%s: mended, it is version %d with %d artifacts, damage %v", what, again.Number, again.Len(), again.Damage)
		}
		if err := whole.Delete(t.Context(), head(again.Number)); err != nil {
			t.Fatal(err)
		}
	}
	hint := manifestPrefix + "/version-hint.text"
	rng := rand.New(rand.NewPCG(1, 1))
	for _, name := range names {
		if strings.Contains(name, "/bundles/") {
			continue
		}
		if strings.Contains(name, "/chunks/") {
			chunks++
		}
		data, _, err := objstore.ReadAll(t.Context(), store, name, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		put := func(data []byte) {
			t.Helper()
			if _, err := whole.Put(t.Context(), name, data, objstore.Condition{}); err != nil {
				t.Fatal(err)
			}
		}
		for i := range data {
			bad := bytes.Clone(data)
			bad[i] ^= 1 << rng.IntN(8)
			put(bad)
			check(fmt.Sprintf("byte %d of %s", i, name), false, name, i%97 == 0)
			if i%97 == 0 { // a repair moved the hint
				if _, err := whole.Put(t.Context(), hint, []byte(fmt.Sprint(newest.number)), objstore.Condition{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, n := range []int{0, 1, len(data) / 2, len(data) - 1} {
			put(data[:n])
			check(fmt.Sprintf("%s cut to %d", name, n), false, name, true)
		}
		put(append(bytes.Clone(data), 'x'))
		check(name+" with a byte more", false, name, true)
		if err := whole.Delete(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		check("without "+name, true, name, true)
		put(data)
		if _, err := whole.Put(t.Context(), hint, []byte(fmt.Sprint(newest.number)), objstore.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	if chunks < 3 || damaged < 100 {
		t.Errorf("only %d chunks, and %d times damage: the test does not see much", chunks, damaged)
	}
}

// TestDamageIsNotForgotten: a writer that publishes on a damaged version leaves out what is lost, and what is replaced is
// covered again.
func TestDamageIsNotForgotten(t *testing.T) {
	store := objstore.NewMemory("t")
	newest := chainEdits(t, store, 5, 9)[9]
	for info, err := range store.List(t.Context(), manifestPrefix+"/chunks/") {
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Delete(t.Context(), info.Name); err != nil {
			t.Fatal(err)
		}
	}
	c := overlay.OpenChain(store, manifestPrefix)
	if v := chainLoad(t, c); len(v.Damage) == 0 || v.Len() != 0 || !errs.Is(v.Damage[0], errs.NotFound) {
		t.Fatalf("without chunks it has %d artifacts, damage %v", v.Len(), v.Damage)
	}
	v, err := c.Update(t.Context(), store, func(*overlay.Version) (overlay.Edit, error) {
		return overlay.Edit{AddArtifacts: newest.artifacts}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	newest.number = 10
	if err := newest.holds(v); err != nil {
		t.Error(err)
	}
	if err := newest.holds(chainLoad(t, overlay.OpenChain(store, manifestPrefix))); err != nil {
		t.Error(err)
	}
}

// TestStoreDoesNotAnswer: a version is given out all the same, and nothing is published that would leave out what is well.
func TestStoreDoesNotAnswer(t *testing.T) {
	mem := objstore.NewMemory("t")
	newest := chainEdits(t, mem, 7, 12)[12]
	for _, script := range []string{"503 * *", "503 stat *", "503 open v*.json", "503 read *", "503 open v[0-9]*-*", "deny open v[0-9]*-*", "503 list *\nfail open version-hint.text"} {
		store, err := objstore.NewFaulty(mem, script)
		if err != nil {
			t.Fatal(err)
		}
		c := overlay.OpenChain(store, manifestPrefix)
		v := chainLoad(t, c)
		if len(v.Damage) == 0 {
			t.Errorf("%s: nothing is reported", script)
			continue
		}
		if _, err := c.Update(t.Context(), store, noEdit); !errs.Is(err, errs.Unavailable) && !errs.Is(err, errs.Denied) {
			t.Errorf("%s: a publish: %v", script, err)
		}
		if err := store.Set(""); err != nil {
			t.Fatal(err)
		}
		if err := newest.holds(chainLoad(t, c)); err != nil {
			t.Errorf("%s: when the store answers again: %v", script, err)
		}
		// And a version that was there before stays.
		if err := store.Set("503 * *"); err != nil {
			t.Fatal(err)
		}
		v = chainLoad(t, c)
		if err := newest.same(v); err != nil || len(v.Damage) == 0 {
			t.Errorf("%s: a known version when the store does not answer: damage %v, %v", script, v.Damage, err)
		}
	}
}

// TestFlippedOnTheWay: a read that lies once is read again.
func TestFlippedOnTheWay(t *testing.T) {
	mem := objstore.NewMemory("t")
	newest := chainEdits(t, mem, 7, 6)[6]
	store, err := objstore.NewFaulty(mem, "flip read v[0-9]*-* at 1")
	if err != nil {
		t.Fatal(err)
	}
	if err := newest.holds(chainLoad(t, overlay.OpenChain(store, manifestPrefix))); err != nil {
		t.Error(err)
	}
}

// TestLostAnswers: a publish whose answer is lost succeeded when it did, and is Unavailable when nobody can tell.
func TestLostAnswers(t *testing.T) {
	for script, want := range map[string]string{
		"unknown put v2.json at 1":                           "done",
		"fail put v2.json at 1":                              "done", // on the second try
		"unknown put v2.json at 1\n503 open v2.json times 1": "done",
		"fail put v2.json":                                   "unknown",
		"unknown put v2.json\n503 open v2.json":              "unknown",
		"unknown put v2.json at 1\n503 open v2.json times 1\nfull put v2.json at 1": "unknown",
		"full put v2.json":           "exhausted",
		"full put v2-*":              "exhausted",
		"tear put v2-*":              "unknown", // of the chunk
		"flip read v2-*":             "corrupt", // what was written does not come back
		"fail put version-hint.text": "done",
	} {
		mem := objstore.NewMemory("t")
		first := chainEdits(t, mem, 1, 1)[1]
		store, err := objstore.NewFaulty(mem, script)
		if err != nil {
			t.Fatal(err)
		}
		w := &manifestWorld{rng: rand.New(rand.NewPCG(9, 9)), ids: 100, bundle: 100}
		e := overlay.Edit{}
		for len(e.AddArtifacts) == 0 {
			if e, err = w.edit(t.Context(), store, first); err != nil {
				t.Fatal(err)
			}
		}
		c := overlay.OpenChain(store, manifestPrefix)
		_, err = c.Publish(t.Context(), store, chainLoad(t, c), e)
		got := "done"
		switch {
		case errs.Is(err, errs.Unavailable):
			got = "unknown"
		case errs.Is(err, errs.Exhausted):
			got = "exhausted"
		case errs.Is(err, errs.Corrupt):
			got = "corrupt"
		case err != nil:
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %s, want %s: %v", script, got, want, err)
		}
		v := chainLoad(t, overlay.OpenChain(mem, manifestPrefix))
		after := first.apply(e)
		if err := after.holds(v); err != nil && (want == "done" || v.Number != 1) {
			t.Errorf("%q: %v", script, err)
		}
		if err := first.holds(v); err != nil && v.Number == 1 {
			t.Errorf("%q: %v", script, err)
		}
		if want == "exhausted" || want == "corrupt" {
			for info, err := range mem.List(t.Context(), manifestPrefix+"/chunks/v2-") {
				t.Errorf("%q: %s stays, %v", script, info.Name, err)
			}
		}
	}
}

// TestBundlesMustBeThere: a version never names what is not there whole.
func TestBundlesMustBeThere(t *testing.T) {
	store := objstore.NewMemory("t")
	c := overlay.OpenChain(store, manifestPrefix)
	def := (&manifestWorld{rng: rand.New(rand.NewPCG(1, 1))}).definition()
	if _, err := c.Update(t.Context(), store, func(*overlay.Version) (overlay.Edit, error) {
		return overlay.Edit{AddDefinitions: []overlay.Definition{def}}, nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Put(t.Context(), manifestPrefix+"/bundles/a", make([]byte, 100), objstore.Condition{}); err != nil {
		t.Fatal(err)
	}
	good := overlay.Artifact{Index: def.ID, Bundle: manifestPrefix + "/bundles/a", Offset: 4, Length: 96, Rows: 10,
		Files: []overlay.CoveredFile{{FileKey: overlay.FileKey{Path: "f", Size: 1, Rows: 10}}}}
	for what, c2 := range map[string]struct {
		change func(*overlay.Artifact)
		kind   errs.Kind
	}{
		"a bundle that is not there":   {func(a *overlay.Artifact) { a.Bundle += "b" }, errs.NotFound},
		"a bundle that is too short":   {func(a *overlay.Artifact) { a.Length++ }, errs.Corrupt},
		"a bundle outside":             {func(a *overlay.Artifact) { a.Bundle = "bundles/a" }, errs.Invalid},
		"a head as bundle":             {func(a *overlay.Artifact) { a.Bundle = manifestPrefix + "/v1.json" }, errs.Invalid},
		"a chunk as bundle":            {func(a *overlay.Artifact) { a.Bundle = manifestPrefix + "/chunks/v1-x" }, errs.Invalid},
		"a name no store takes":        {func(a *overlay.Artifact) { a.Bundle = manifestPrefix + "/a/../b" }, errs.Invalid},
		"no index":                     {func(a *overlay.Artifact) { a.Index = "x" }, errs.Invalid},
		"no file":                      {func(a *overlay.Artifact) { a.Files = nil }, errs.Invalid},
		"a file twice":                 {func(a *overlay.Artifact) { a.Files = append(slices.Clone(a.Files), a.Files[0]) }, errs.Invalid},
		"a file without path":          {func(a *overlay.Artifact) { a.Files = []overlay.CoveredFile{{}} }, errs.Invalid},
		"rows beyond the artifact's":   {func(a *overlay.Artifact) { a.Rows = 9 }, errs.Invalid},
		"a negative offset":            {func(a *overlay.Artifact) { a.Offset = -1 }, errs.Invalid},
		"an end beyond all numbers":    {func(a *overlay.Artifact) { a.Length = 1<<63 - 1 }, errs.Invalid},
		"a text that is far too long":  {func(a *overlay.Artifact) { a.Fingerprint = strings.Repeat("x", 1<<17) }, errs.Invalid},
		"a bound that is far too long": {func(a *overlay.Artifact) { a.Max = make([]byte, 1<<17) }, errs.Invalid},
	} {
		a := good
		c2.change(&a)
		if _, err := c.Publish(t.Context(), store, chainLoad(t, c), overlay.Edit{AddArtifacts: []overlay.Artifact{a}}); !errs.Is(err, c2.kind) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := c.Publish(t.Context(), store, chainLoad(t, c), overlay.Edit{AddArtifacts: []overlay.Artifact{good, good}}); !errs.Is(err, errs.Invalid) {
		t.Errorf("two at one place: %v", err)
	}
	for what, c2 := range map[string]struct {
		e    overlay.Edit
		kind errs.Kind
	}{
		"dropping what is not there": {overlay.Edit{DropDefinitions: []string{"x"}}, errs.NotFound},
		"changing what is not there": {overlay.Edit{ChangeDefinitions: []overlay.Definition{{ID: "x", Name: "x", Kind: "x"}}}, errs.NotFound},
		"defining twice":             {overlay.Edit{AddDefinitions: []overlay.Definition{def}}, errs.Exists},
		"no name":                    {overlay.Edit{AddDefinitions: []overlay.Definition{{ID: "y", Kind: "x"}}}, errs.Invalid},
		"a name that is no UTF-8":    {overlay.Edit{AddDefinitions: []overlay.Definition{{ID: "y", Kind: "x", Name: "\xff"}}}, errs.Invalid},
		"a parameter no UTF-8":       {overlay.Edit{AddDefinitions: []overlay.Definition{{ID: "y", Kind: "x", Name: "n", Params: map[string]string{"a": "\xff"}}}}, errs.Invalid},
	} {
		if _, err := c.Publish(t.Context(), store, chainLoad(t, c), c2.e); !errs.Is(err, c2.kind) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if v := chainLoad(t, overlay.OpenChain(store, manifestPrefix)); v.Number != 1 {
		t.Errorf("it is version %d", v.Number)
	}
	if v, err := c.Publish(t.Context(), store, chainLoad(t, c), overlay.Edit{AddArtifacts: []overlay.Artifact{good}}); err != nil || v.Number != 2 {
		t.Errorf("the good one: %v", err)
	}
}

// asked counts what a store is asked.
type asked struct {
	objstore.Store
	mu    sync.Mutex
	stat  int
	opens []string
	lists int
}

func (a *asked) Stat(ctx context.Context, name string) (objstore.Info, error) {
	a.mu.Lock()
	a.stat++
	a.mu.Unlock()
	return a.Store.Stat(ctx, name)
}

func (a *asked) Open(ctx context.Context, name string) (objstore.Object, error) {
	a.mu.Lock()
	a.opens = append(a.opens, strings.TrimPrefix(name, manifestPrefix+"/"))
	a.mu.Unlock()
	return a.Store.Open(ctx, name)
}

func (a *asked) List(ctx context.Context, prefix string) iter.Seq2[objstore.Info, error] {
	a.mu.Lock()
	a.lists++
	a.mu.Unlock()
	return a.Store.List(ctx, prefix)
}

func (a *asked) String() string {
	for i, n := range a.opens {
		if strings.HasPrefix(n, "chunks/") {
			a.opens[i] = n[:strings.Index(n, "-")]
		}
	}
	slices.Sort(a.opens)
	out := fmt.Sprintf("%d stats, %d lists, opens %v", a.stat, a.lists, a.opens)
	a.stat, a.lists, a.opens = 0, 0, nil
	return out
}

// TestWhatLoadingCosts: one look when nothing changed; after a publish by somebody else the new head and the new chunk.
func TestWhatLoadingCosts(t *testing.T) {
	mem := objstore.NewMemory("t")
	store := &asked{Store: mem}
	c := overlay.OpenChain(store, manifestPrefix)
	want := func(what, cost string) {
		t.Helper()
		v := chainLoad(t, c)
		if got := store.String(); got != cost || len(v.Damage) > 0 {
			t.Errorf("%s: %s, want %s", what, got, cost)
		}
	}
	want("nothing there", "1 stats, 1 lists, opens [version-hint.text]")
	want("nothing there, again", "1 stats, 0 lists, opens []")
	other := overlay.OpenChain(mem, manifestPrefix)
	w := &manifestWorld{rng: rand.New(rand.NewPCG(1, 1))}
	publish := func() {
		t.Helper()
		w.bundle++
		name := fmt.Sprintf("%s/bundles/%d", manifestPrefix, w.bundle)
		if _, err := mem.Put(t.Context(), name, make([]byte, 1000), objstore.Condition{}); err != nil {
			t.Fatal(err)
		}
		if _, err := other.Update(t.Context(), mem, func(v *overlay.Version) (overlay.Edit, error) {
			var e overlay.Edit
			if v.Number == 0 {
				e.AddDefinitions = append(e.AddDefinitions, w.definition())
			}
			e.AddArtifacts = append(e.AddArtifacts, w.artifact("i1", name))
			return e, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	publish()
	want("the first version", "4 stats, 0 lists, opens [chunks/v1 v1.json version-hint.text]")
	publish()
	want("the second", "3 stats, 0 lists, opens [chunks/v2 v2.json]")
	want("nothing new", "1 stats, 0 lists, opens []")
	publish()
	publish()
	want("two more", "4 stats, 0 lists, opens [chunks/v3 chunks/v4 v4.json]")
	c = overlay.OpenChain(store, manifestPrefix)
	want("somebody new", "1 stats, 0 lists, opens [chunks/v1 chunks/v2 chunks/v3 chunks/v4 v4.json version-hint.text]")
	for _, hint := range []string{"", "x", "3", "2\n", "99", "-1", strings.Repeat("9", 100), "4\nchunks/none", "4\n../v1.json\n\nv1.json", "3\n" + strings.Repeat("chunks/x\n", 100), "4" + strings.Repeat("\n", 20_000)} {
		if _, err := mem.Put(t.Context(), manifestPrefix+"/version-hint.text", []byte(hint), objstore.Condition{}); err != nil {
			t.Fatal(err)
		}
		if v := chainLoad(t, overlay.OpenChain(mem, manifestPrefix)); v.Number != 4 {
			t.Errorf("with the hint %q it is version %d", hint, v.Number)
		}
	}
}

// TestManyWriters: of many updates at once none is lost.
func TestManyWriters(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		store := objstore.NewMemory("t")
		manyWriters(t, func() objstore.Store { return store })
	})
	t.Run("local", func(t *testing.T) {
		dir := t.TempDir()
		manyWriters(t, func() objstore.Store { // each as another process would
			store, err := objstore.OpenLocal(dir, objstore.LocalOptions{NoSync: true})
			if err != nil {
				t.Fatal(err)
			}
			return store
		})
	})
}

func manyWriters(t *testing.T, open func() objstore.Store) {
	store := open()
	first := overlay.OpenChain(store, manifestPrefix)
	w := &manifestWorld{rng: rand.New(rand.NewPCG(1, 1))}
	def := w.definition()
	if _, err := first.Update(t.Context(), store, func(*overlay.Version) (overlay.Edit, error) {
		return overlay.Edit{AddDefinitions: []overlay.Definition{def}}, nil
	}); err != nil {
		t.Fatal(err)
	}
	const writers, each = 4, 12
	var wg sync.WaitGroup
	for i := range writers {
		c, store := first, store // two writers of one process share a chain
		if i%2 == 0 {
			store = open()
			c = overlay.OpenChain(store, manifestPrefix)
		}
		wg.Go(func() {
			for j := range each {
				name := fmt.Sprintf("%s/bundles/%d-%d", manifestPrefix, i, j)
				if _, err := store.Put(t.Context(), name, make([]byte, 10), objstore.Condition{}); err != nil {
					t.Error(err)
				}
				a := overlay.Artifact{Index: def.ID, Bundle: name, Length: 10, Files: []overlay.CoveredFile{{FileKey: overlay.FileKey{Path: name}}}}
				if _, err := c.Update(t.Context(), store, func(*overlay.Version) (overlay.Edit, error) {
					return overlay.Edit{AddArtifacts: []overlay.Artifact{a}}, nil
				}); err != nil {
					t.Error(err)
				}
				if _, err := c.Collect(t.Context(), store, time.Hour); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	v := chainLoad(t, overlay.OpenChain(store, manifestPrefix))
	if v.Number != 1+writers*each || v.Len() != writers*each || len(v.Damage) > 0 {
		t.Errorf("version %d with %d artifacts, damage %v", v.Number, v.Len(), v.Damage)
	}
	for i := range writers {
		for j := range each {
			if _, ok := v.Artifact(def.ID, fmt.Sprintf("%s/bundles/%d-%d", manifestPrefix, i, j)); !ok {
				t.Errorf("artifact %d of writer %d is lost", j, i)
			}
		}
	}
}

// TestTornHead: a head that is stored in half is nobody's base; the update goes on after it.
func TestTornHead(t *testing.T) {
	mem := objstore.NewMemory("t")
	first := chainEdits(t, mem, 1, 1)[1]
	store, err := objstore.NewFaulty(mem, "tear put v2.json at 1")
	if err != nil {
		t.Fatal(err)
	}
	w := &manifestWorld{rng: rand.New(rand.NewPCG(4, 4)), ids: 100, bundle: 100}
	e, err := w.edit(t.Context(), store, first)
	if err != nil || emptyEdit(e) {
		t.Fatal(err)
	}
	v, err := overlay.OpenChain(store, manifestPrefix).Update(t.Context(), store, func(*overlay.Version) (overlay.Edit, error) { return e, nil })
	if err != nil {
		t.Fatal(err)
	}
	want := first.apply(e)
	want.number = 3
	if err := want.holds(v); err != nil {
		t.Error(err)
	}
	if err := want.holds(chainLoad(t, overlay.OpenChain(mem, manifestPrefix))); err != nil {
		t.Error(err)
	}
}

func TestUpdateGivesUp(t *testing.T) {
	store := objstore.NewMemory("t")
	c, other := overlay.OpenChain(store, manifestPrefix), overlay.OpenChain(store, manifestPrefix)
	w := &manifestWorld{rng: rand.New(rand.NewPCG(1, 1))}
	tries := 0
	always := func(v *overlay.Version) (overlay.Edit, error) {
		tries++
		// Somebody is always faster.
		if _, err := other.Update(t.Context(), store, func(*overlay.Version) (overlay.Edit, error) {
			return overlay.Edit{AddDefinitions: []overlay.Definition{w.definition()}}, nil
		}); err != nil {
			t.Fatal(err)
		}
		return overlay.Edit{AddDefinitions: []overlay.Definition{w.definition()}}, nil
	}
	if _, err := c.Update(t.Context(), store, always); !errs.Is(err, errs.Conflict) || tries != 30 {
		t.Errorf("after %d tries: %v", tries, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := c.Update(ctx, store, func(v *overlay.Version) (overlay.Edit, error) { cancel(); return always(v) }); !errs.Is(err, errs.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := c.Load(ctx); !errs.Is(err, errs.Canceled) {
		t.Errorf("a load after the end of its context: %v", err)
	}
	mine := errs.New(errs.Exists, "test", "no")
	if _, err := c.Update(t.Context(), store, func(*overlay.Version) (overlay.Edit, error) { return overlay.Edit{}, mine }); err != mine {
		t.Errorf("an error of the caller: %v", err)
	}
}

// TestGarbage: what nothing names goes when it is old enough, and nothing else; what is still to be published stays.
func TestGarbage(t *testing.T) {
	store := objstore.NewMemory("t")
	history := chainEdits(t, store, 11, 40)
	c := overlay.OpenChain(store, manifestPrefix)
	young, err := c.Unreferenced(t.Context(), time.Hour)
	if err != nil || len(young) > 0 {
		t.Fatalf("of the last hour it lists %v, %v", young, err)
	}
	if _, err := c.Unreferenced(t.Context(), -1); !errs.Is(err, errs.Invalid) {
		t.Errorf("a negative age: %v", err)
	}
	for _, name := range []string{"chunks/v41-under-way", "chunks/v42-under-way", "chunks/v40-lost", "chunks/strange", "bundles/lost", "claims/x"} {
		if _, err := store.Put(t.Context(), manifestPrefix+"/"+name, []byte("x"), objstore.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := store.Put(t.Context(), manifestPrefix+"2/other", []byte("x"), objstore.Condition{}); err != nil {
		t.Fatal(err)
	}
	done, err := c.Collect(t.Context(), store, 0)
	if err != nil || len(done) == 0 {
		t.Fatalf("collected %v, %v", done, err)
	}
	want := map[string]bool{manifestPrefix + "/version-hint.text": true, manifestPrefix + "/chunks/v41-under-way": true, manifestPrefix + "/chunks/v42-under-way": true, manifestPrefix + "2/other": true}
	for _, m := range history[31:] {
		want[fmt.Sprintf("%s/v%d.json", manifestPrefix, m.number)] = true
		for _, a := range m.artifacts {
			want[a.Bundle] = true
		}
	}
	chunks := 0
	for info, err := range store.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(info.Name, "/chunks/") && !strings.Contains(info.Name, "under-way") {
			chunks++
			continue
		}
		if !want[info.Name] {
			t.Errorf("%s stays", info.Name)
		}
		delete(want, info.Name)
	}
	for name := range want {
		t.Errorf("%s is gone", name)
	}
	if chunks > 30 || chunks == 0 {
		t.Errorf("%d chunks stay for 10 versions", chunks)
	}
	if err := history[40].holds(chainLoad(t, overlay.OpenChain(store, manifestPrefix))); err != nil {
		t.Error(err)
	}
	if done, err := c.Collect(t.Context(), store, 0); err != nil || len(done) != 0 {
		t.Errorf("a second collection takes %+v, %v", done, err)
	}
}

// TestNoGarbageAmongDamage: while the newest version cannot be read whole, nothing is removed; a damaged old one holds
// nothing up.
func TestNoGarbageAmongDamage(t *testing.T) {
	store := objstore.NewMemory("t")
	chainEdits(t, store, 13, 12)
	put := func(n int, text string) {
		t.Helper()
		if _, err := store.Put(t.Context(), fmt.Sprintf("%s/v%d.json", manifestPrefix, n), []byte(text), objstore.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	put(12, "torn")
	c := overlay.OpenChain(store, manifestPrefix)
	if _, err := c.Collect(t.Context(), store, 0); !errs.Is(err, errs.Corrupt) || errs.HintOf(err) == "" {
		t.Errorf("with the newest version torn: %v", err)
	}
	v, err := c.Update(t.Context(), store, noEdit)
	if err != nil || v.Number != 13 {
		t.Fatalf("the next publish: %v", err)
	}
	if _, err := c.Collect(t.Context(), store, 0); err != nil {
		t.Errorf("with an old version torn: %v", err)
	}
	got := chainLoad(t, overlay.OpenChain(store, manifestPrefix))
	if got.Number != 13 || got.Len() != v.Len() || len(got.Damage) > 0 {
		t.Errorf("after that it is version %d with %d artifacts of %d, damage %v", got.Number, got.Len(), v.Len(), got.Damage)
	}
	faulty, err := objstore.NewFaulty(store, "503 open v9.json")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := overlay.OpenChain(faulty, manifestPrefix).Collect(t.Context(), faulty, 0); !errs.Is(err, errs.Unavailable) {
		t.Errorf("with an old version that the store does not give: %v", err)
	}
}

// TestLater: versions of a later format are not published upon.
func TestLater(t *testing.T) {
	store := objstore.NewMemory("t")
	chainEdits(t, store, 2, 3)
	body := `{"format":2,"version":4,"news":[]}`
	text := fmt.Sprintf(`{"crc32c":"%s","overlay":%s}`+"\n", overlay.ManifestSum([]byte(body)), body)
	if _, err := store.Put(t.Context(), manifestPrefix+"/v4.json", []byte(text), objstore.Condition{}); err != nil {
		t.Fatal(err)
	}
	c := overlay.OpenChain(store, manifestPrefix)
	v := chainLoad(t, c)
	if v.Number != 4 || len(v.Damage) != 1 || !errs.Is(v.Damage[0], errs.Unsupported) {
		t.Errorf("version %d, damage %v", v.Number, v.Damage)
	}
	if _, err := c.Update(t.Context(), store, noEdit); !errs.Is(err, errs.Unsupported) {
		t.Errorf("a publish: %v", err)
	}
}
