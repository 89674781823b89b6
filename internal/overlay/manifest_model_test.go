package overlay_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/objstore"
	"github.com/overlakedb/overlake/internal/overlay"
	"github.com/overlakedb/overlake/internal/testenv"
)

const manifestPrefix = "_overlay/t"

// manifestModel is what a version should say, kept in the plainest way.
type manifestModel struct {
	number      int64
	definitions []overlay.Definition
	artifacts   []overlay.Artifact // oldest first
}

func (m manifestModel) newest(index, path string) int {
	for i := len(m.artifacts) - 1; i >= 0; i-- {
		if a := m.artifacts[i]; a.Index == index && slices.ContainsFunc(a.Files, func(f overlay.CoveredFile) bool { return f.Path == path }) {
			return i
		}
	}
	return -1
}

// apply gives the version after an edit.
func (m manifestModel) apply(e overlay.Edit) manifestModel {
	out := manifestModel{number: m.number + 1, definitions: slices.Clone(m.definitions), artifacts: slices.Clone(m.artifacts)}
	for _, id := range e.DropDefinitions {
		out.definitions = slices.DeleteFunc(out.definitions, func(d overlay.Definition) bool { return d.ID == id })
		out.artifacts = slices.DeleteFunc(out.artifacts, func(a overlay.Artifact) bool { return a.Index == id })
	}
	for _, d := range e.ChangeDefinitions {
		out.definitions[slices.IndexFunc(out.definitions, func(o overlay.Definition) bool { return o.ID == d.ID })] = d
	}
	out.definitions = append(out.definitions, e.AddDefinitions...)
	for _, d := range e.DropArtifacts {
		out.artifacts = slices.DeleteFunc(out.artifacts, func(a overlay.Artifact) bool {
			return a.Index == d.Index && a.Bundle == d.Bundle && a.Offset == d.Offset
		})
	}
	added := manifestModel{artifacts: e.AddArtifacts}
	var stay []overlay.Artifact
	for i, a := range out.artifacts {
		met, used := false, false
		for _, f := range a.Files {
			if added.newest(a.Index, f.Path) >= 0 {
				met = true
			} else if out.newest(a.Index, f.Path) == i {
				used = true
			}
		}
		if !met || used {
			stay = append(stay, a)
		}
	}
	out.artifacts = append(stay, e.AddArtifacts...)
	return out
}

// holds compares a version with the model.
func (m manifestModel) holds(v *overlay.Version) error {
	if v.Number != m.number || len(v.Damage) > 0 {
		return fmt.Errorf("it is version %d with damage %v, want version %d", v.Number, v.Damage, m.number)
	}
	return m.same(v)
}

func (m manifestModel) same(v *overlay.Version) error {
	if got := v.Definitions(); len(got) != len(m.definitions) || len(got) > 0 && !reflect.DeepEqual(got, m.definitions) {
		return fmt.Errorf("it defines\n%v, want\n%v", got, m.definitions)
	}
	i := 0
	for _, a := range v.Artifacts() {
		if i == len(m.artifacts) || !reflect.DeepEqual(*a, m.artifacts[i]) {
			want := "none"
			if i < len(m.artifacts) {
				want = fmt.Sprintf("%+v", m.artifacts[i])
			}
			return fmt.Errorf("artifact %d of %d is\n%+v, want\n%s", i, len(m.artifacts), *a, want)
		}
		i++
	}
	if i != len(m.artifacts) || v.Len() != i {
		return fmt.Errorf("it has %d artifacts and says %d, want %d", i, v.Len(), len(m.artifacts))
	}
	for _, a := range m.artifacts {
		for _, f := range a.Files {
			got, ok := v.Artifact(a.Index, f.Path)
			if want := m.artifacts[m.newest(a.Index, f.Path)]; !ok || !reflect.DeepEqual(*got, want) {
				return fmt.Errorf("%s of index %s is covered by\n%+v, want\n%+v", f.Path, a.Index, got, want)
			}
		}
	}
	for _, q := range [][2]string{{"no index", "f1"}, {"", ""}, {"i1", "no file"}} {
		if _, ok := v.Artifact(q[0], q[1]); ok {
			return fmt.Errorf("%v is covered", q)
		}
	}
	return nil
}

// manifestWorld makes edits at random.
type manifestWorld struct {
	rng    *rand.Rand
	ids    int
	bundle int
	offset int // of the next artifact: no two of a bundle lie at one place
}

func (w *manifestWorld) definition() overlay.Definition {
	w.ids++
	d := overlay.Definition{ID: fmt.Sprintf("i%d", w.ids), Name: fmt.Sprintf("by <%d> é", w.ids), Kind: "bitmap", Columns: []int{w.rng.IntN(9), 2147483647},
		Created: time.Unix(int64(w.ids), 5e6).UTC()}
	if w.ids%2 == 0 {
		d.Params = map[string]string{"fpr": "0.01"}
	}
	return d
}

// artifact covers some files; small numbers of files make old artifacts be replaced often.
func (w *manifestWorld) artifact(index string, bundle string) overlay.Artifact {
	a := overlay.Artifact{Index: index, Fingerprint: fmt.Sprint("print", w.rng.IntN(3)), Bundle: bundle, Offset: int64(w.offset), Length: int64(w.rng.IntN(500)),
		Type: "overlake-bitmap-v1", CRC: fmt.Sprintf("%08x", w.rng.Uint32()), Distinct: int64(w.rng.IntN(5)) - 1, Nulls: int64(w.rng.IntN(3)) - 1}
	if w.rng.IntN(2) == 0 {
		a.Min, a.Max = []byte{}, []byte{0, 255, byte(w.rng.Uint32())}
	}
	w.offset = (w.offset + 1) % 500
	for range 1 + w.rng.IntN(4)*w.rng.IntN(4) {
		f := overlay.CoveredFile{FileKey: overlay.FileKey{Path: fmt.Sprintf("s3://b/table/data/%03d.parquet", w.rng.IntN(150)), Size: 1 << w.rng.IntN(40),
			ETag: fmt.Sprint(w.rng.IntN(2)), Rows: int64(w.rng.IntN(3))}, Base: a.Rows}
		if slices.ContainsFunc(a.Files, func(g overlay.CoveredFile) bool { return g.Path == f.Path }) {
			continue
		}
		a.Files = append(a.Files, f)
		a.Rows += f.Rows
	}
	if len(a.Files) > 1 && w.rng.IntN(2) == 0 {
		a.Files[0], a.Files[1] = a.Files[1], a.Files[0] // bases need not ascend
	}
	return a
}

// edit makes a change to a version, and puts the bundle that it names.
func (w *manifestWorld) edit(ctx context.Context, store objstore.Store, m manifestModel) (overlay.Edit, error) {
	var e overlay.Edit
	if len(m.definitions) == 0 || w.rng.IntN(12) == 0 {
		e.AddDefinitions = append(e.AddDefinitions, w.definition())
	}
	live := slices.Clone(m.definitions)
	if len(live) > 3 || len(live) > 1 && w.rng.IntN(15) == 0 {
		n := w.rng.IntN(len(live))
		e.DropDefinitions = append(e.DropDefinitions, live[n].ID)
		live = slices.Delete(live, n, n+1)
	}
	if len(live) > 0 && w.rng.IntN(10) == 0 {
		d := live[0]
		d.Name += "'"
		e.ChangeDefinitions = append(e.ChangeDefinitions, d)
	}
	live = append(live, e.AddDefinitions...)
	if w.rng.IntN(5) > 0 && len(live) > 0 {
		w.bundle++
		name := fmt.Sprintf("%s/bundles/%d.puffin", manifestPrefix, w.bundle)
		if _, err := store.Put(ctx, name, make([]byte, 1000), objstore.Condition{}); err != nil {
			return e, err
		}
		for range 1 + w.rng.IntN(6) {
			e.AddArtifacts = append(e.AddArtifacts, w.artifact(live[w.rng.IntN(len(live))].ID, name))
		}
	}
	for range w.rng.IntN(3) {
		if len(m.artifacts) > 0 {
			a := m.artifacts[w.rng.IntN(len(m.artifacts))]
			if !slices.Contains(e.DropDefinitions, a.Index) || w.rng.IntN(2) == 0 {
				e.DropArtifacts = append(e.DropArtifacts, &a)
			}
		}
	}
	return e, nil
}

func emptyEdit(e overlay.Edit) bool {
	return len(e.AddDefinitions)+len(e.ChangeDefinitions)+len(e.DropDefinitions)+len(e.AddArtifacts)+len(e.DropArtifacts) == 0
}

// manifestHistory runs random steps of several writers over a store that may lose power, and compares with the model after
// each.
func manifestHistory(t *testing.T, seed uint64, steps int, modes ...objstore.CrashMode) {
	w := &manifestWorld{rng: rand.New(rand.NewPCG(seed, 0))}
	store := objstore.NewCrashable("t", seed, modes...)
	chains := []*overlay.Chain{overlay.OpenChain(store, manifestPrefix), overlay.OpenChain(store, manifestPrefix)}
	bases := make([]*overlay.Version, len(chains)) // that writers may have slept on
	history := []manifestModel{{}}
	newest := func() manifestModel { return history[len(history)-1] }
	crashes := len(modes) > 0
	for step := range steps {
		fail := func(format string, args ...any) {
			t.Helper()
			t.Fatalf("seed %d, step %d: %s", seed, step, fmt.Sprintf(format, args...))
		}
		i := w.rng.IntN(len(chains))
		c := chains[i]
		if crashes && w.rng.IntN(20) == 0 {
			store.Sync()
			store.CrashAfter(1 + w.rng.IntN(6))
		}
		switch w.rng.IntN(8) {
		case 0, 1: // a look
			v, err := c.Load(t.Context())
			if err != nil {
				fail("load: %v", err)
			}
			if store.Crashed() {
				break
			}
			if err := newest().holds(v); err != nil {
				fail("%v", err)
			}
			bases[i] = v
		case 2: // a look by somebody new
			v, err := overlay.OpenChain(store, manifestPrefix).Load(t.Context())
			if err != nil {
				fail("load: %v", err)
			}
			if !store.Crashed() {
				if err := newest().holds(v); err != nil {
					fail("%v", err)
				}
			}
		case 3: // garbage
			if _, err := c.Collect(t.Context(), store, 0); err != nil && !store.Crashed() {
				fail("collect: %v", err)
			}
			if !store.Crashed() {
				if err := nothingLost(t.Context(), store, history); err != nil {
					fail("%v", err)
				}
			}
		case 4: // a publish upon what this writer saw last
			if bases[i] == nil || len(bases[i].Damage) > 0 {
				break
			}
			m := history[bases[i].Number]
			e, err := w.edit(t.Context(), store, m)
			if err != nil {
				break // a crash
			}
			v, err := c.Publish(t.Context(), store, bases[i], e)
			switch {
			case store.Crashed():
			case emptyEdit(e):
				if err != nil || v != bases[i] {
					fail("an empty edit: %v", err)
				}
			case m.number != newest().number:
				if !errs.Is(err, errs.Conflict) {
					fail("a publish on version %d of %d: %v", m.number, newest().number, err)
				}
			case err != nil:
				fail("publish: %v", err)
			default:
				history = append(history, m.apply(e))
				if err := newest().holds(v); err != nil {
					fail("%v", err)
				}
				bases[i] = v
			}
			if store.Crashed() {
				store, chains, history = afterCrash(t, seed, step, store, history, m.apply(e), m.number == newest().number && !emptyEdit(e))
				clear(bases)
			}
		default:
			var m manifestModel
			var e overlay.Edit
			v, err := c.Update(t.Context(), store, func(v *overlay.Version) (overlay.Edit, error) {
				if len(v.Damage) > 0 {
					return overlay.Edit{}, v.Damage[0]
				}
				m = history[v.Number]
				var err error
				e, err = w.edit(t.Context(), store, m)
				return e, err
			})
			if store.Crashed() {
				store, chains, history = afterCrash(t, seed, step, store, history, m.apply(e), m.number == newest().number && !emptyEdit(e))
				clear(bases)
				break
			}
			if err != nil {
				fail("update: %v", err)
			}
			if !emptyEdit(e) {
				history = append(history, m.apply(e))
			}
			if err := newest().holds(v); err != nil {
				fail("%v", err)
			}
		}
		if store.Crashed() { // outside of a publish
			store, chains, history = afterCrash(t, seed, step, store, history, manifestModel{}, false)
			clear(bases)
		}
	}
}

// afterCrash gives the store and two chains of new processes. The version that was being published is there or not.
func afterCrash(t *testing.T, seed uint64, step int, store *objstore.Crashable, history []manifestModel, next manifestModel, may bool) (*objstore.Crashable, []*overlay.Chain, []manifestModel) {
	t.Helper()
	store = store.Restart()
	chains := []*overlay.Chain{overlay.OpenChain(store, manifestPrefix), overlay.OpenChain(store, manifestPrefix)}
	v, err := chains[0].Load(t.Context())
	if err != nil {
		t.Fatalf("seed %d, step %d: after the crash: %v", seed, step, err)
	}
	if may && v.Number == next.number && len(v.Damage) == 0 {
		history = append(history, next)
	}
	m := history[len(history)-1]
	if len(v.Damage) > 0 {
		// A head was torn: the one before it is read, and the next publish goes on after both.
		if err := m.same(v); err != nil {
			t.Fatalf("seed %d, step %d: after the crash, with damage %v: %v", seed, step, v.Damage, err)
		}
		if v, err = chains[0].Update(t.Context(), store, func(*overlay.Version) (overlay.Edit, error) { return overlay.Edit{}, nil }); err != nil {
			t.Fatalf("seed %d, step %d: after the crash: %v", seed, step, err)
		}
		for n := m.number + 1; n <= v.Number; n++ { // the torn one is nobody's base
			history = append(history, manifestModel{number: n, definitions: m.definitions, artifacts: m.artifacts})
		}
		m = history[len(history)-1]
	}
	if err := m.holds(v); err != nil {
		t.Fatalf("seed %d, step %d: after the crash: %v", seed, step, err)
	}
	return store, chains, history
}

// nothingLost looks whether what the newest ten versions name is there.
func nothingLost(ctx context.Context, store objstore.Reader, history []manifestModel) error {
	for _, m := range history[max(0, len(history)-10):] {
		for _, a := range m.artifacts {
			if _, err := store.Stat(ctx, a.Bundle); err != nil {
				return fmt.Errorf("version %d of %d: %w", m.number, len(history)-1, err)
			}
		}
	}
	return nil
}

func TestManifestModel(t *testing.T) {
	seeds := uint64(3)
	if testenv.Deep() {
		seeds = 200
	}
	for seed := range seeds {
		t.Run(fmt.Sprintf("seed%d", seed), func(t *testing.T) { manifestHistory(t, seed, 300) })
		t.Run(fmt.Sprintf("crash%d", seed), func(t *testing.T) { manifestHistory(t, seed, 300, 0) })
		t.Run(fmt.Sprintf("torn%d", seed), func(t *testing.T) { manifestHistory(t, seed, 300, objstore.Torn) })
	}
}

// TestManifestOnABadDisk: a store that forgets acknowledged writes, and keeps others in half, against its promises. Then versions
// may be lost, but no load fails, no artifact is given out that was never published, and the chain goes on.
func TestManifestOnABadDisk(t *testing.T) {
	seeds := uint64(15)
	if testenv.Deep() {
		seeds = 1000
	}
	damaged := 0
	for seed := range seeds {
		w := &manifestWorld{rng: rand.New(rand.NewPCG(seed, 2))}
		store := objstore.NewCrashable("t", seed, objstore.Torn, objstore.Unsynced)
		published := map[string]bool{}
		text := func(a overlay.Artifact) string { return fmt.Sprintf("%+v", a) }
		for crash := range 12 {
			fail := func(format string, args ...any) {
				t.Helper()
				t.Fatalf("seed %d, crash %d: %s", seed, crash, fmt.Sprintf(format, args...))
			}
			c := overlay.OpenChain(store, manifestPrefix)
			v, err := c.Load(t.Context())
			if err != nil {
				fail("load: %v", err)
			}
			if len(v.Damage) > 0 {
				damaged++
			}
			for range 1 + w.rng.IntN(8) {
				v, err = c.Update(t.Context(), store, func(v *overlay.Version) (overlay.Edit, error) {
					var m manifestModel
					m.definitions = v.Definitions()
					for _, a := range v.Artifacts() {
						if !published[text(*a)] {
							fail("this was never published: %+v", *a)
						}
						m.artifacts = append(m.artifacts, *a)
					}
					e, err := w.edit(t.Context(), store, m)
					for _, a := range e.AddArtifacts {
						published[text(a)] = true
					}
					return e, err
				})
				if err != nil || len(v.Damage) > 0 {
					fail("a publish: damage %v, %v", v.Damage, err)
				}
				if w.rng.IntN(4) == 0 {
					store.Sync()
				}
				if w.rng.IntN(6) == 0 {
					// Where versions in the middle were lost, those after them may be damaged although none follows from them.
					if _, err := c.Collect(t.Context(), store, 0); err != nil && !errs.Is(err, errs.NotFound) && !errs.Is(err, errs.Corrupt) {
						fail("collect: %v", err)
					}
				}
			}
			// Whatever was found at first, what is published is what everybody sees then.
			if v, err = c.Update(t.Context(), store, func(*overlay.Version) (overlay.Edit, error) {
				return overlay.Edit{AddDefinitions: []overlay.Definition{w.definition()}}, nil
			}); err != nil || len(v.Damage) > 0 {
				fail("the last publish: %v", err)
			}
			if again, err := overlay.OpenChain(store, manifestPrefix).Load(t.Context()); err != nil || again.Number != v.Number || again.Len() != v.Len() || len(again.Damage) > 0 {
				fail("after publishing version %d it is %d, damage %v, %v", v.Number, again.Number, again.Damage, err)
			}
			store = store.Restart()
		}
	}
	if damaged == 0 {
		t.Error("the disk was not bad enough")
	}
}
