package search_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/objstore"
	"github.com/overlakedb/overlake/internal/overlay"
)

// smallTable has files with artifacts of their own and files that share one, deleted rows, and a file without an index.
func smallTable(t testing.TB, store objstore.Store) *lake.Table {
	t.Helper()
	table := newTable(t, store, "small", specs...)
	s := open(t, store, nil)
	table = appendTo(t, table, made(0, 35, 0))
	build(t, s, table)
	table = appendTo(t, table, made(35, 35, 3))
	build(t, s, table)
	table = appendTo(t, table, made(70, 12, 1))
	table = appendTo(t, table, made(82, 20, 5))
	build(t, s, table)
	table = remove(t, table, 9)
	return appendTo(t, table, made(102, 10, 2))
}

var smallQuestions = questions(0, 34, 40, 75, 101, 105, 500)

// objects lists what an overlay consists of.
func objects(t testing.TB, store objstore.Reader) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for info, err := range store.List(t.Context(), "_overlay/") {
		if err != nil {
			t.Fatal(err)
		}
		data, _, err := objstore.ReadAll(t.Context(), store, info.Name, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		out[info.Name] = data
	}
	return out
}

// restore makes the overlay what it was.
func restore(t testing.TB, store objstore.Store, was map[string][]byte) {
	t.Helper()
	for name := range objects(t, store) {
		if _, ok := was[name]; !ok {
			if err := store.Delete(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, data := range was {
		put(t, store, name, data)
	}
}

func put(t testing.TB, store objstore.Store, name string, data []byte) {
	t.Helper()
	if _, err := store.Put(t.Context(), name, data, objstore.Condition{}); err != nil {
		t.Fatal(err)
	}
}

// heals proves that a build after damage covers everything again, by artifacts that are well.
func heals(t testing.TB, store objstore.Store, table *lake.Table, what string) {
	t.Helper()
	s := open(t, store, nil)
	ctx := t.Context()
	for _, d := range specs { // those may be lost whose only copy was hit, and those that were not there yet are not
		if _, err := s.Of(table).Define(ctx, table, d); err != nil && !errs.Is(err, errs.Exists) {
			t.Fatalf("%s: %v", what, err)
		}
	}
	// Whoever looks after a warehouse verifies, then builds.
	if err := s.Of(table).Verify(ctx, nil, func(string, error) {}); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if _, err := s.Of(table).Cover(ctx, table, overlay.BuildOptions{}); err != nil {
		t.Fatalf("%s: the build after it: %v", what, err)
	}
	var e events
	s = open(t, store, &e)
	u, err := answers(ctx, s, table, scan(t, table), smallQuestions)
	if err != nil {
		t.Fatalf("%s, built again: %v", what, err)
	}
	if u.scanned > 0 {
		t.Fatalf("%s, built again: %d files are still scanned: %+v", what, u.scanned, e.list)
	}
	if err := s.Of(table).Verify(ctx, nil, func(object string, err error) { t.Errorf("%s, built again: %s: %v", what, object, err) }); err != nil {
		t.Fatal(err)
	}
	if e.len() > 0 {
		t.Errorf("%s, built again, still reported: %+v", what, e.list)
	}
}

func TestWholeOverlayIsUsed(t *testing.T) {
	store := objstore.NewMemory("t")
	table := smallTable(t, store)
	var e events
	u, err := answers(t.Context(), open(t, store, &e), table, scan(t, table), smallQuestions)
	if err != nil {
		t.Fatal(err)
	}
	if e.len() > 0 || u.fetched == 0 || u.pruned == 0 || u.scanned == 0 || u.summed == 0 || u.first == 0 {
		t.Fatalf("%+v, events %+v", u, e.list)
	}
}

// Every byte of an overlay, one after the other, with another value: the same answers.
func TestEveryByteOfAnOverlay(t *testing.T) {
	store := objstore.NewMemory("t")
	table := smallTable(t, store)
	rows := scan(t, table)
	was := objects(t, store)
	few := []question{smallQuestions[0], smallQuestions[3], smallQuestions[4], smallQuestions[7]}
	step := 1
	if testing.Short() {
		step = 23
	}
	flips, reported, at := 0, 0, 0
	for name, data := range was {
		for i := 0; i < len(data); i += step {
			bad := bytes.Clone(data)
			bad[i] ^= 1 << (at % 8)
			at++
			put(t, store, name, bad)
			var e events
			s := overlay.NewSet(store, overlay.Options{Events: e.add})
			if _, err := answers(t.Context(), s, table, rows, few); err != nil {
				t.Fatalf("byte %d of %s: %v", i, name, err)
			}
			s.Close()
			flips++
			if e.len() > 0 {
				reported++
			}
			if at%911 == 5 {
				heals(t, store, table, fmt.Sprintf("byte %d of %s", i, name))
				restore(t, store, was)
			}
		}
		put(t, store, name, data)
	}
	t.Logf("%d flips in %d objects, %d of them reported by these few questions", flips, len(was), reported)
	if reported < flips/5 {
		t.Errorf("of %d flips %d were reported", flips, reported)
	}
}

// Every object gone, empty, cut, longer, or with the bytes of another one: the same answers, a report, and a build mends it.
func TestObjectsGoneCutAndExchanged(t *testing.T) {
	store := objstore.NewMemory("t")
	table := smallTable(t, store)
	rows := scan(t, table)
	was := objects(t, store)
	var names []string
	for name := range was {
		names = append(names, name)
	}
	slices.Sort(names)
	try := func(what string, silent bool, change func()) {
		t.Helper()
		change()
		var e events
		if _, err := answers(t.Context(), open(t, store, &e), table, rows, smallQuestions); err != nil {
			t.Errorf("%s: %v", what, err)
		} else if e.len() == 0 && !silent {
			t.Errorf("%s: nothing was reported", what)
		}
		heals(t, store, table, what)
		restore(t, store, was)
	}
	for _, name := range names {
		data := was[name]
		// What only the newest version leaves unused may be anything.
		old := !strings.Contains(name, "/bundles/")
		try(name+" deleted", old, func() {
			if err := store.Delete(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		})
		for _, n := range []int{0, 1, len(data) / 2, len(data) - 1} {
			footer := n > len(data)/4 // which queries do not need
			try(fmt.Sprintf("%s cut to %d bytes", name, n), old || footer, func() { put(t, store, name, data[:n]) })
		}
		try(name+" with bytes behind", true, func() { put(t, store, name, append(bytes.Clone(data), 0)) })
		try(name+" zeroed", old, func() { put(t, store, name, make([]byte, len(data))) })
		for _, other := range names {
			if other > name {
				try(name+" and "+other+" exchanged", old || !strings.Contains(other, "/bundles/"), func() {
					put(t, store, name, was[other])
					put(t, store, other, data)
				})
			}
		}
	}
}

// Artifacts of two files that are alike in everything but the order of their rows are exchanged, each for the other: every
// checksum inside is right.
func TestArtifactOfAnotherFile(t *testing.T) {
	store := objstore.NewMemory("t")
	table := newTable(t, store, "twins", specs...)
	s := open(t, store, nil)
	for shift := range 8 {
		table = appendTo(t, table, made(0, 35, shift))
		build(t, s, table)
	}
	rows := scan(t, table)
	plan, err := table.Plan(t.Context(), lake.Ref{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	view, err := s.Of(table).View(t.Context(), plan.Schema)
	if err != nil {
		t.Fatal(err)
	}
	was := objects(t, store)
	exchanged := 0
	for _, x := range view.Indexes() {
		var list []*overlay.Artifact
		for i := range plan.Files {
			a, _, err := x.Artifact(t.Context(), &plan.Files[i])
			if a == nil || err != nil {
				t.Fatal(a, err)
			}
			list = append(list, a)
		}
		for i, a := range list {
			for _, b := range list[i+1:] {
				one, two := was[a.Bundle][a.Offset:a.Offset+a.Length], was[b.Bundle][b.Offset:b.Offset+b.Length]
				if len(one) != len(two) || bytes.Equal(one, two) {
					continue
				}
				exchanged++
				x1, x2 := bytes.Clone(was[a.Bundle]), bytes.Clone(was[b.Bundle])
				copy(x1[a.Offset:], two)
				copy(x2[b.Offset:], one)
				put(t, store, a.Bundle, x1)
				put(t, store, b.Bundle, x2)
				var e events
				if _, err := answers(t.Context(), open(t, store, &e), table, rows, questions(0, 5, 17, 34)); err != nil {
					t.Errorf("two artifacts of %s exchanged: %v", x.Name, err)
				}
				if e.len() == 0 {
					t.Errorf("two artifacts of %s exchanged: nothing was reported", x.Name)
				}
				put(t, store, a.Bundle, was[a.Bundle])
				put(t, store, b.Bundle, was[b.Bundle])
			}
		}
	}
	if exchanged < 20 {
		t.Errorf("only %d pairs of artifacts are of one length", exchanged)
	}
}

// An overlay of an older day is put back beside a table that went on, and one of another table in its place.
func TestOlderAndForeignOverlay(t *testing.T) {
	store := objstore.NewMemory("t")
	table := newTable(t, store, "aging", specs...)
	s := open(t, store, nil)
	table = appendTo(t, table, made(0, 35, 0))
	build(t, s, table)
	old := objects(t, store)
	table, _, err := table.Overwrite(t.Context(), recordsOf(made(35, 35, 9)), lake.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	table = appendTo(t, table, made(70, 35, 4))
	build(t, s, table)
	if u, err := answers(t.Context(), s, table, scan(t, table), smallQuestions); err != nil || u.scanned > 0 {
		t.Fatalf("%+v, %v", u, err)
	}
	restore(t, store, old)
	// A process that knows the newer version, and one that does not.
	for i, s := range []*overlay.Set{s, open(t, store, nil)} {
		if _, err := answers(t.Context(), s, table, scan(t, table), smallQuestions); err != nil {
			t.Errorf("process %d with the overlay of before: %v", i, err)
		}
	}
	build(t, open(t, store, nil), table)
	if u, err := answers(t.Context(), open(t, store, nil), table, scan(t, table), smallQuestions); err != nil || u.scanned > 0 {
		t.Errorf("after a build on the overlay of before: %+v, %v", u, err)
	}

	other := newTable(t, store, "other", specs...)
	other = appendTo(t, other, made(0, 35, 1))
	build(t, open(t, store, nil), other)
	mine, theirs := overlay.Prefix(table.UUID())+"/", overlay.Prefix(other.UUID())+"/"
	for name, data := range objects(t, store) {
		if below, ok := strings.CutPrefix(name, theirs); ok {
			put(t, store, mine+below, data)
		}
	}
	if _, err := answers(t.Context(), open(t, store, nil), table, scan(t, table), smallQuestions); err != nil {
		t.Errorf("with the overlay of another table: %v", err)
	}
}

// A data file is replaced under its name by one with other rows, as many and in as many bytes: the index is not believed,
// also by a process that opened it before.
func TestReplacedDataFile(t *testing.T) {
	for _, kind := range []string{"memory", "local"} {
		t.Run(kind, func(t *testing.T) {
			var store objstore.Store = objstore.NewMemory("t")
			if kind == "local" {
				var err error
				if store, err = objstore.OpenLocal(t.TempDir(), objstore.LocalOptions{NoSync: true}); err != nil {
					t.Fatal(err)
				}
			}
			table := newTable(t, store, "replaced", specs...)
			var e events
			s := open(t, store, &e)
			table = appendTo(t, table, made(0, 35, 0))
			build(t, s, table)
			if _, err := answers(t.Context(), s, table, scan(t, table), smallQuestions); err != nil {
				t.Fatal(err)
			}
			// Files of the same rows in other orders; one of them has the size.
			plan, err := table.Plan(t.Context(), lake.Ref{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			victim := plan.Files[0]
			same, any := []byte(nil), []byte(nil)
			scratch := newTable(t, store, "scratch")
			for shift := 1; shift < 35; shift++ {
				next, _, err := scratch.Overwrite(t.Context(), recordsOf(made(0, 35, shift)), lake.WriteOptions{})
				if err != nil {
					t.Fatal(err)
				}
				scratch = next
				p, err := scratch.Plan(t.Context(), lake.Ref{}, nil)
				if err != nil {
					t.Fatal(err)
				}
				data, _, err := objstore.ReadAll(t.Context(), store, p.Files[0].Name, 1<<20)
				if err != nil {
					t.Fatal(err)
				}
				if any = data; int64(len(data)) == victim.Size {
					same = data
				}
			}
			for what, data := range map[string][]byte{"of the same size": same, "of any size": any} {
				if data == nil {
					t.Logf("no file %s", what)
					continue
				}
				put(t, store, victim.Name, data)
				before := e.len()
				for name, s := range map[string]*overlay.Set{"that knows it": s, "that is new": open(t, store, &e)} {
					fresh, err := lake.OpenFileCatalog(store).Load(t.Context(), table.Ident())
					if err != nil {
						t.Fatal(err)
					}
					if name == "that knows it" {
						fresh = table
					}
					rows, err := contents(t.Context(), fresh, plan)
					if err != nil {
						t.Logf("a file %s, read by a process %s: the scan itself says %v", what, name, err)
						continue
					}
					if _, err := answers(t.Context(), s, fresh, rows, smallQuestions); err != nil {
						t.Errorf("a file %s, a process %s: %v", what, name, err)
					}
				}
				if e.len() == before {
					t.Errorf("a file %s: nothing was reported", what)
				}
			}
		})
	}
}

// A store that fails on index objects changes no answer and ends no query.
func TestStoreFailsWhileAsked(t *testing.T) {
	store := objstore.NewMemory("t")
	table := smallTable(t, store)
	rows := scan(t, table)
	for _, rules := range []string{
		"503 open *.puffin", "503 read *.puffin", "tear read *.puffin", "flip read *.puffin", "fail * *.puffin from 2 times 3", "flip read *.puffin at 3", "tear read *.puffin at 4",
		"503 read v*.json", "503 open v*.json", "tear read v*.json", "flip read v*.json", "fail stat v*.json", "fail list *_overlay*", "fail list *", "503 open version-hint.text\n503 list *",
		"503 read v*-*", "tear read v*-*", "flip read v*-*", "flip read v*-* at 1", "deny open *.puffin", "503 stat *.parquet", "fail stat *.parquet at 2", "503 * v*", "503 open *-*",
	} {
		f, err := objstore.NewFaulty(store, rules)
		if err != nil {
			t.Fatal(err)
		}
		var e events
		s := open(t, f, &e)
		for range 2 {
			if _, err := answers(t.Context(), s, table, rows, smallQuestions); err != nil {
				t.Errorf("%s: %v", rules, err)
			}
		}
		// The store is well again: so are the indexes, after a look at all of them at the latest.
		if err := f.Set(""); err != nil {
			t.Fatal(err)
		}
		u, err := answers(t.Context(), s, table, rows, smallQuestions)
		if err != nil {
			t.Errorf("%s, over: %v", rules, err)
		}
		if u.fetched == 0 && !strings.Contains(rules, "flip") {
			t.Errorf("%s, over: no index is used any more: %+v", rules, u)
		}
	}
}

// short gives fewer bytes than are asked for, without an error, as a store must not.
type short struct{ objstore.Store }

func (s short) Open(ctx context.Context, name string) (objstore.Object, error) {
	o, err := s.Store.Open(ctx, name)
	if err != nil || !strings.HasPrefix(name, "_overlay/") {
		return o, err
	}
	return shortObject{o}, nil
}

type shortObject struct{ objstore.Object }

func (o shortObject) ReadAt(p []byte, off int64) (int, error) {
	n, err := o.Object.ReadAt(p[:len(p)/2], off)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

func TestShortReads(t *testing.T) {
	store := objstore.NewMemory("t")
	table := smallTable(t, store)
	var e events
	s := open(t, short{store}, &e)
	if _, err := answers(t.Context(), s, table, scan(t, table), smallQuestions); err != nil {
		t.Error(err)
	}
	if e.len() == 0 {
		t.Error("nothing was reported")
	}
}

// A query that is ended says so, and does not take an index for damaged.
func TestEndedQuery(t *testing.T) {
	store := objstore.NewMemory("t")
	table := smallTable(t, store)
	var e events
	s := open(t, store, &e)
	ctx, cancel := context.WithCancel(t.Context())
	rows := scan(t, table)
	cancel()
	if _, err := answers(ctx, s, table, rows, smallQuestions); !errs.Is(err, errs.Canceled) && !errors.Is(err, context.Canceled) {
		t.Errorf("an ended query gives %v", err)
	}
	if e.len() > 0 {
		t.Errorf("it reported %+v", e.list)
	}
	if u, err := answers(t.Context(), s, table, rows, smallQuestions); err != nil || u.fetched == 0 {
		t.Errorf("the next query: %+v, %v", u, err)
	}
}
