package objstore_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/objstore"
	"github.com/overlakedb/overlake/internal/objstore/storetest"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("OBJSTORE_RACE_DIR"); dir != "" {
		raceChild(dir)
		return
	}
	os.Exit(m.Run())
}

func openLocal(t *testing.T) *objstore.Local {
	t.Helper()
	s, err := objstore.OpenLocal(t.TempDir(), objstore.LocalOptions{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestLaw(t *testing.T) {
	for name, open := range map[string]func(*testing.T) objstore.Store{
		"memory": func(t *testing.T) objstore.Store { return objstore.NewMemory("t") },
		"local":  func(t *testing.T) objstore.Store { return openLocal(t) },
		"synced": func(t *testing.T) objstore.Store {
			s, err := objstore.OpenLocal(t.TempDir(), objstore.LocalOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		"faultless": func(t *testing.T) objstore.Store {
			s, err := objstore.NewFaulty(openLocal(t), "# no rules\n")
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		"quota": func(t *testing.T) objstore.Store {
			s, err := objstore.NewQuota(t.Context(), openLocal(t), 1<<30)
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		"crashable": func(t *testing.T) objstore.Store { return objstore.NewCrashable("t", 1) },
	} {
		t.Run(name, func(t *testing.T) { storetest.Run(t, open) })
	}
}

// TestProcessesRace lets several processes create the same names: exactly one may win each.
func TestProcessesRace(t *testing.T) {
	dir := t.TempDir()
	var children []*exec.Cmd
	outs := make([]strings.Builder, 4)
	for i := range outs {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), "OBJSTORE_RACE_DIR="+dir)
		c.Stdout, c.Stderr = &outs[i], os.Stderr
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		children = append(children, c)
	}
	wins := map[string]int{}
	for i, c := range children {
		if err := c.Wait(); err != nil {
			t.Fatal(err)
		}
		for _, name := range strings.Fields(outs[i].String()) {
			wins[name]++
		}
	}
	for i := range raceNames {
		if n := wins[fmt.Sprintf("n%d", i)]; n != 1 {
			t.Errorf("n%d has %d creators", i, n)
		}
	}
	if n := wins["counter"]; n != len(children)*raceSwaps {
		t.Errorf("%d swaps were acknowledged, want %d", n, len(children)*raceSwaps)
	}
	s, err := objstore.OpenLocal(dir, objstore.LocalOptions{})
	if err != nil {
		t.Fatal(err)
	}
	data, _, err := objstore.ReadAll(t.Context(), s, "counter", 1<<20)
	if err != nil || len(data) != len(children)*raceSwaps {
		t.Errorf("the counter holds %d swaps, %v: an acknowledged one was lost", len(data), err)
	}
}

const raceNames, raceSwaps = 200, 25

func raceChild(dir string) {
	s, err := objstore.OpenLocal(dir, objstore.LocalOptions{NoSync: true})
	if err != nil {
		panic(err)
	}
	ctx := testContext
	for i := range raceNames {
		name := fmt.Sprintf("n%d", i)
		if _, err := s.Put(ctx, name, nil, objstore.Condition{IfAbsent: true}); err == nil {
			fmt.Println(name)
		}
	}
	for done := 0; done < raceSwaps; {
		data, info, err := objstore.ReadAll(ctx, s, "counter", 1<<20)
		cond := objstore.Condition{IfMatch: info.ETag}
		if errs.Is(err, errs.NotFound) {
			cond = objstore.Condition{IfAbsent: true}
		}
		if _, err := s.Put(ctx, "counter", append(data, 'x'), cond); err == nil {
			fmt.Println("counter")
			done++
		}
	}
}

func TestReadOnlyHasNoWriter(t *testing.T) {
	s := openLocal(t)
	if _, err := s.Put(t.Context(), "a", []byte("1"), objstore.Condition{}); err != nil {
		t.Fatal(err)
	}
	dir, _ := s.LocalPath("a")
	plain, err := objstore.OpenLocalReadOnly(filepath.Dir(dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []objstore.Reader{objstore.ReadOnly(s), objstore.ReadOnly(objstore.NewMemory("m")), plain} {
		if _, ok := r.(objstore.Store); ok {
			t.Errorf("%T can write", r)
		}
		if _, ok := r.(interface {
			Delete(any, string) error
		}); ok {
			t.Errorf("%T can delete", r)
		}
	}
	if _, err := objstore.OpenLocalReadOnly(filepath.Join(t.TempDir(), "none")); !errs.Is(err, errs.NotFound) {
		t.Errorf("a missing directory gave %v", err)
	}
}

func TestSymlinksCannotLeave(t *testing.T) {
	s := openLocal(t)
	p, _ := s.LocalPath("link")
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, p); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(t.Context(), "link/secret"); !errs.Is(err, errs.Denied) {
		t.Errorf("reading through a link gave %v", err)
	}
	if _, err := s.Put(t.Context(), "link/new", nil, objstore.Condition{}); err == nil {
		t.Error("writing through a link worked")
	}
}

func TestReservedNames(t *testing.T) {
	s := openLocal(t)
	if _, err := s.Put(t.Context(), "a/.overlake-tmp-x", nil, objstore.Condition{}); !errs.Is(err, errs.Invalid) {
		t.Errorf("a reserved name gave %v", err)
	}
}

func TestReadOnlyDirectoryIsDeniedWithAHint(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("the superuser may write anywhere")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	s, err := objstore.OpenLocal(dir, objstore.LocalOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Put(t.Context(), "a", nil, objstore.Condition{})
	if !errs.Is(err, errs.Denied) || errs.HintOf(err) == "" {
		t.Errorf("got %v, hint %q", err, errs.HintOf(err))
	}
}

func TestQuota(t *testing.T) {
	base := openLocal(t)
	if _, err := base.Put(t.Context(), "old", make([]byte, 40), objstore.Condition{}); err != nil {
		t.Fatal(err)
	}
	s, err := objstore.NewQuota(t.Context(), base, 100)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), "a", make([]byte, 60), objstore.Condition{}); err != nil {
		t.Fatal(err)
	}
	_, err = s.Put(t.Context(), "b", make([]byte, 1), objstore.Condition{})
	if !errs.Is(err, errs.Exhausted) || errs.HintOf(err) == "" {
		t.Errorf("over the quota gave %v", err)
	}
	if err := s.Delete(t.Context(), "old"); err != nil {
		t.Fatal(err)
	}
	w, err := s.Create(t.Context(), "c", objstore.Condition{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 30)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 30)); !errs.Is(err, errs.Exhausted) {
		t.Errorf("a stream over the quota gave %v", err)
	}
	if err := w.Abort(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), "d", make([]byte, 40), objstore.Condition{}); err != nil {
		t.Errorf("aborted bytes still count: %v", err)
	}
	if _, ok := s.(objstore.LocalPather); !ok {
		t.Error("a quota hides local paths")
	}
}

func TestFaultLanguage(t *testing.T) {
	m := objstore.NewMemory("t")
	f, err := objstore.NewFaulty(m, `
		fail put *.parquet from 2 times 1   # the second one
		unknown put v*.json
		tear put torn
		full put full
		deny delete *
		fail read slow
	`)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	write := func(name string) error {
		_, err := f.Put(ctx, name, []byte("0123456789"), objstore.Condition{})
		return err
	}
	for i, want := range []bool{true, false, true} {
		if err := write("data/x.parquet"); (err == nil) != want {
			t.Errorf("write %d: %v", i, err)
		}
	}
	if err := write("v1.json"); !errs.Is(err, errs.Unavailable) {
		t.Errorf("a lost answer gave %v", err)
	}
	if _, err := m.Stat(ctx, "v1.json"); err != nil {
		t.Error("a lost answer must still have written")
	}
	if err := write("torn"); err == nil {
		t.Error("a torn write was acknowledged")
	}
	if info, err := m.Stat(ctx, "torn"); err != nil || info.Size != 5 {
		t.Errorf("torn: %+v, %v", info, err)
	}
	if err := write("full"); !errs.Is(err, errs.Exhausted) {
		t.Error(err)
	}
	if err := f.Delete(ctx, "full"); !errs.Is(err, errs.Denied) {
		t.Error(err)
	}
	if err := write("slow"); err != nil {
		t.Fatal(err)
	}
	o, err := f.Open(ctx, "slow")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.ReadAt(make([]byte, 1), 0); !errs.Is(err, errs.Unavailable) {
		t.Error(err)
	}
	for _, bad := range []string{"explode put *", "fail juggle *", "fail put", "fail put * from", "fail put * from x", "delay=z put *", "fail put * since 3"} {
		if err := f.Set(bad); !errs.Is(err, errs.Invalid) {
			t.Errorf("%q gave %v", bad, err)
		}
	}
}

// TestCrash runs a history of writes into a crash at every point: what was acknowledged is there after the restart, and
// of the rest at most the write in flight.
func TestCrash(t *testing.T) {
	for point := 1; point <= 6; point++ {
		for seed := range uint64(4) {
			c := objstore.NewCrashable("t", seed)
			c.CrashAfter(point)
			acked := 0
			for i := range 6 {
				if _, err := c.Put(t.Context(), fmt.Sprintf("o%d", i), nil, objstore.Condition{}); err == nil {
					acked++
				}
			}
			if !c.Crashed() || acked != point-1 {
				t.Fatalf("crash at %d: %d acknowledged", point, acked)
			}
			if _, err := c.Stat(t.Context(), "o0"); !errs.Is(err, errs.Unavailable) {
				t.Errorf("a crashed store answers: %v", err)
			}
			n := 0
			for _, err := range c.Restart().List(t.Context(), "") {
				if err != nil {
					t.Fatal(err)
				}
				n++
			}
			if n != acked && n != acked+1 {
				t.Errorf("crash at %d: %d objects after the restart, %d acknowledged", point, n, acked)
			}
		}
	}
}
