package search_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/objstore"
	"github.com/overlakedb/overlake/internal/overlay"
	"github.com/overlakedb/overlake/internal/predicate"
	"github.com/overlakedb/overlake/internal/search"
	"github.com/overlakedb/overlake/internal/testenv"
)

func load(t testing.TB, store objstore.Reader, name string) *lake.Table {
	t.Helper()
	table, err := lake.OpenFileCatalog(store).Load(t.Context(), lake.Ident{Namespace: lake.DefaultNamespace, Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// expire makes the claims of builders that are no more look old.
func expire(t testing.TB, store objstore.Store) {
	t.Helper()
	for name := range objects(t, store) {
		if strings.Contains(name, "/claims/") {
			put(t, store, name, []byte(`{"owner":"x","renewed":"2001-01-01T00:00:00Z"}`))
		}
	}
}

// A crash at every write of definitions, builds and publications, on disks that keep their promises and on worse ones: the
// answers stay, and a build goes on.
func TestCrashOfABuild(t *testing.T) {
	for _, mode := range []objstore.CrashMode{0, objstore.Torn, objstore.Unsynced, objstore.Torn | objstore.Unsynced} {
		t.Run(fmt.Sprint("mode ", mode), func(t *testing.T) {
			crashes := 0
			for n := 1; ; n++ {
				store := objstore.NewCrashable("t", uint64(n), mode)
				table := newTable(t, store, "small")
				for shift := range 3 {
					table = appendTo(t, table, made(35*int64(shift), 35, shift))
				}
				store.Sync()
				rows := scan(t, table)
				store.CrashAfter(n)
				s := overlay.NewSet(store, overlay.Options{SpillDir: t.TempDir()})
				o := s.Of(table)
				err := func() error {
					for _, d := range specs {
						if _, err := o.Define(t.Context(), table, d); err != nil {
							return err
						}
					}
					if _, err := o.Build(t.Context(), table, overlay.BuildOptions{Only: []string{"id", "both"}}); err != nil {
						return err
					}
					if err := o.Rename(t.Context(), "cat", "category"); err != nil {
						return err
					}
					if _, err := o.Build(t.Context(), table, overlay.BuildOptions{}); err != nil {
						return err
					}
					if err := o.Drop(t.Context(), "name"); err != nil {
						return err
					}
					_, err := o.Build(t.Context(), table, overlay.BuildOptions{Anew: true})
					return err
				}()
				s.Close()
				crashed := store.Crashed()
				if !crashed {
					if err != nil {
						t.Fatalf("without a crash: %v", err)
					}
					if n < 20 {
						t.Fatalf("the history has only %d writes", n)
					}
					t.Logf("%d crashes", crashes)
					return
				}
				crashes++
				next := store.Restart()
				table = load(t, next, "small")
				s = open(t, next, nil)
				if _, err := answers(t.Context(), s, table, rows, smallQuestions); err != nil {
					t.Fatalf("crash at write %d: %v", n, err)
				}
				expire(t, next)
				if mode&objstore.Unsynced != 0 {
					// A version in the middle may be lost, on disks that forget what they acknowledged. Who publishes first may
					// fill the gap, which is lost too then; the next goes on from the end.
					s := open(t, next, nil)
					if _, err := s.Of(table).Define(t.Context(), table, overlay.Spec{Name: "passing", Columns: []string{"id"}}); err != nil {
						t.Fatal(err)
					}
					if err := s.Of(table).Drop(t.Context(), "passing"); err != nil && !errs.Is(err, errs.NotFound) {
						t.Fatal(err)
					}
				}
				heals(t, next, table, fmt.Sprintf("crash at write %d", n))
			}
		})
	}
}

// A full disk: the error says so, nothing is lost, and with room the build goes on.
func TestFullDiskWhileBuilding(t *testing.T) {
	memory := objstore.NewMemory("t")
	table := newTable(t, memory, "small", specs...)
	for shift := range 3 {
		table = appendTo(t, table, made(35*int64(shift), 35, shift))
	}
	rows := scan(t, table)
	was := objects(t, memory)
	refused := 0
	for room := int64(0); ; room += 150 {
		restore(t, memory, was)
		used := int64(0)
		for info, err := range memory.List(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			used += info.Size
		}
		store, err := objstore.NewQuota(t.Context(), memory, used+room)
		if err != nil {
			t.Fatal(err)
		}
		s := open(t, store, nil)
		_, err = s.Of(table).Build(t.Context(), table, overlay.BuildOptions{})
		if err != nil {
			refused++
			if !errs.Is(err, errs.Exhausted) {
				t.Fatalf("with room for %d bytes: %v", room, err)
			}
		}
		if _, err := answers(t.Context(), s, table, rows, smallQuestions); err != nil {
			t.Fatalf("with room for %d bytes: %v", room, err)
		}
		for name := range objects(t, memory) {
			if strings.Contains(name, "/claims/") {
				t.Errorf("with room for %d bytes the claim stays that no builder has any more", room)
			}
		}
		if _, err := open(t, memory, nil).Of(table).Build(t.Context(), table, overlay.BuildOptions{}); err != nil {
			t.Fatalf("with room again: %v", err)
		}
		if u, err := answers(t.Context(), s, table, rows, smallQuestions); err != nil || u.scanned > 0 {
			t.Fatalf("with room again: %+v, %v", u, err)
		}
		if err == nil {
			break
		}
	}
	if refused < 10 {
		t.Errorf("only %d builds met the full disk", refused)
	}
}

// Builders that race share the work: every index covers every file, by one artifact.
func TestBuildersRace(t *testing.T) {
	store := objstore.NewMemory("t")
	ctx := t.Context()
	for round := range 20 {
		table := newTable(t, store, fmt.Sprint("race", round), specs...)
		const files = 4
		for shift := range files {
			table = appendTo(t, table, made(35*int64(shift), 35, shift))
		}
		const builders = 3
		var g sync.WaitGroup
		var made atomic.Int64
		for range builders {
			s := open(t, store, nil)
			g.Go(func() {
				r, err := s.Of(table).Cover(ctx, table, overlay.BuildOptions{})
				if err != nil {
					t.Error(err)
				}
				made.Add(int64(r.FilesDone))
			})
		}
		g.Wait()
		one(t, open(t, store, nil), table)
		if n := made.Load(); n != files {
			t.Errorf("round %d: %d files were indexed, there are %d", round, n, files)
		}
		if u, err := answers(ctx, open(t, store, nil), table, scan(t, table), smallQuestions); err != nil || u.scanned > 0 {
			t.Fatalf("%+v, %v", u, err)
		}
	}
}

// one asks for full coverage, and for the indexes of specs where none are named.
func one(t testing.TB, s *overlay.Set, table *lake.Table, indexes ...overlay.Spec) {
	t.Helper()
	list, err := s.Of(table).Status(t.Context(), table)
	if err != nil {
		t.Fatal(err)
	}
	if indexes == nil {
		indexes = specs
	}
	if len(list) != len(indexes) {
		t.Errorf("there are %d indexes, %d were defined", len(list), len(indexes))
	}
	for _, x := range list {
		if x.Covered != x.Files {
			t.Errorf("%s covers %d of %d files", x.Name, x.Covered, x.Files)
		}
	}
}

// claims notes the names of claims.
type claims struct {
	objstore.Store
	mu    sync.Mutex
	names []string
}

func (c *claims) Put(ctx context.Context, name string, data []byte, cond objstore.Condition) (objstore.Info, error) {
	if strings.Contains(name, "/claims/") {
		c.mu.Lock()
		c.names = append(c.names, name)
		c.mu.Unlock()
	}
	return c.Store.Put(ctx, name, data, cond)
}

// Clocks differ, jump and lie: a claim of about now is respected, any other taken over.
func TestClaimsOfOtherClocks(t *testing.T) {
	at := func(d time.Duration) []byte {
		raw, err := json.Marshal(map[string]any{"owner": "another", "renewed": time.Now().Add(d).UTC()})
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	for what, c := range map[string]struct {
		text      []byte
		respected bool
	}{
		"now": {at(0), true}, "half a minute ago": {at(-30 * time.Second), true}, "half a minute ahead": {at(30 * time.Second), true},
		"two minutes ago": {at(-2 * time.Minute), false}, "an hour ahead": {at(time.Hour), false}, "1970": {[]byte(`{"owner":"x","renewed":"1970-01-01T00:00:00Z"}`), false},
		"the year 9999": {[]byte(`{"owner":"x","renewed":"9999-12-31T00:00:00Z"}`), false}, "empty": {nil, false}, "half": {at(0)[:20], false}, "no claim": {[]byte("\xff\x00"), false},
		"too long": {[]byte(`{"owner":"` + strings.Repeat("x", 10_000)), false},
	} {
		t.Run(what, func(t *testing.T) {
			store := &claims{Store: objstore.NewMemory("t")}
			table := newTable(t, store, "small", specs...)
			table = appendTo(t, table, made(0, 35, 0))
			// A build that fails behind its claim tells the claim's name.
			f, err := objstore.NewFaulty(store, "full create *.puffin")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := open(t, f, nil).Of(table).Build(t.Context(), table, overlay.BuildOptions{}); !errs.Is(err, errs.Exhausted) || len(store.names) != 1 {
				t.Fatalf("%v, claims %v", err, store.names)
			}
			put(t, store, store.names[0], c.text)
			s := open(t, store, nil)
			r, err := s.Of(table).Build(t.Context(), table, overlay.BuildOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if got := r.Elsewhere > 0; got != c.respected {
				t.Errorf("respected %v: %+v", got, r)
			}
			u, err := answers(t.Context(), s, table, scan(t, table), smallQuestions)
			if err != nil || (u.scanned == 0) == c.respected {
				t.Errorf("%+v, %v", u, err)
			}
		})
	}
}

// Roles of a process that TestBuilder is run as.
const (
	childVar = "OVERLAKE_BUILDER"
	childDir = "OVERLAKE_BUILDER_DIR"
)

// TestBuilder is the child of the tests below: it builds again and again until it is killed, or once.
func TestBuilder(t *testing.T) {
	role := os.Getenv(childVar)
	if role == "" {
		t.Skip("a child of other tests")
	}
	store, err := objstore.OpenLocal(os.Getenv(childDir), objstore.LocalOptions{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	table := load(t, store, "killed")
	s := overlay.NewSet(store, overlay.Options{})
	fmt.Println("ready")
	if role == "once" {
		r, err := s.Of(table).Cover(t.Context(), table, overlay.BuildOptions{})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("done", r.FilesDone)
		return
	}
	for i := 0; ; i++ {
		table = appendTo(t, table, made(int64(10_000*i), 35, i%35))
		if _, err := s.Of(table).Build(t.Context(), table, overlay.BuildOptions{Anew: i%2 == 1}); err != nil {
			t.Fatal(err)
		}
		if i > 0 && i%3 == 0 {
			if table, _, err = table.Overwrite(t.Context(), recordsOf(made(0, 35, i%35)), lake.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func spawn(t *testing.T, role, dir string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^TestBuilder$", "-test.v")
	c.Env = append(os.Environ(), childVar+"="+role, childDir+"="+dir)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "ready" {
	}
	return c, lines
}

func TestKilledBuilders(t *testing.T) {
	dir := t.TempDir()
	store, err := objstore.OpenLocal(dir, objstore.LocalOptions{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	newTable(t, store, "killed", specs...)
	kills := 12
	if testing.Short() {
		kills = 3
	} else if os.Getenv(testenv.DeepVar) != "" {
		kills = 200
	}
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	for n := range kills {
		c, lines := spawn(t, "for ever", dir)
		for range 3 { // not before something may be there to break
			if table := load(t, store, "killed"); table.UUID() != "" {
				time.Sleep(time.Duration(rng.IntN(150)) * time.Millisecond)
			}
		}
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() {
			if strings.Contains(lines.Text(), "FAIL") {
				t.Error("a builder failed by itself")
			}
		}
		_ = c.Wait() // it was killed
		table := load(t, store, "killed")
		if _, err := answers(t.Context(), open(t, store, nil), table, scan(t, table), smallQuestions); err != nil {
			t.Fatalf("kill %d: %v", n, err)
		}
		expire(t, store)
		if n%4 == 3 {
			build(t, open(t, store, nil), table)
			u, err := answers(t.Context(), open(t, store, nil), table, scan(t, table), smallQuestions)
			if err != nil || u.scanned > 0 {
				t.Fatalf("kill %d, built again: %+v, %v", n, u, err)
			}
		}
	}
	// Nothing is left that collecting does not find, once it is old enough.
	table := load(t, store, "killed")
	build(t, open(t, store, nil), table)
	if _, err := open(t, store, nil).Of(table).Collect(t.Context(), table); err != nil {
		t.Fatal(err)
	}
	one(t, open(t, store, nil), table)
}

func TestProcessesBuild(t *testing.T) {
	dir := t.TempDir()
	store, err := objstore.OpenLocal(dir, objstore.LocalOptions{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	table := newTable(t, store, "killed", specs...)
	const files = 3
	for shift := range files {
		table = appendTo(t, table, made(35*int64(shift), 35, shift))
	}
	var lines []*bufio.Scanner
	var children []*exec.Cmd
	for range 2 {
		c, l := spawn(t, "once", dir)
		children, lines = append(children, c), append(lines, l)
	}
	sum := 0
	for i, l := range lines {
		for l.Scan() {
			var n int
			if _, err := fmt.Sscanf(l.Text(), "done %d", &n); err == nil {
				sum += n
			}
		}
		if err := children[i].Wait(); err != nil {
			t.Error(err)
		}
	}
	if sum != files {
		t.Errorf("two processes indexed %d files, there are %d", sum, files)
	}
	one(t, open(t, store, nil), table)
	if u, err := answers(t.Context(), open(t, store, nil), table, scan(t, table), smallQuestions); err != nil || u.scanned > 0 {
		t.Errorf("%+v, %v", u, err)
	}
}

// many yields rows in an order that is no order of any column.
type many struct {
	array.RecordReader
	left, at int64
	cur      arrow.RecordBatch
}

func (m *many) Schema() *arrow.Schema { return recordSchema }
func (m *many) Err() error            { return nil }
func (m *many) Retain()               {}
func (m *many) Release()              {}

func (m *many) Next() bool {
	if m.left <= 0 {
		return false
	}
	n := min(m.left, 8192)
	m.left -= n
	b := array.NewRecordBuilder(memory.DefaultAllocator, recordSchema)
	defer b.Release()
	for range n {
		id := m.at * 7919 % 1_000_003
		m.at++
		b.Field(0).(*array.Int64Builder).Append(id)
		b.Field(1).(*array.Int32Builder).Append(int32(id % 100))
		b.Field(2).(*array.StringBuilder).Append(fmt.Sprintf("name of %d", id))
	}
	m.cur = b.NewRecordBatch()
	return true
}

func (m *many) RecordBatch() arrow.RecordBatch { return m.cur }

// A build keeps to its memory: a million rows, unique numbers and texts, within 16 MiB for the index; with make deep ten
// million within 256 MiB, so that a process of 512 MiB has room for it.
func TestBuildKeepsToItsMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("a million rows")
	}
	limit, rows := int64(16<<20), int64(1_000_000)
	if os.Getenv(testenv.DeepVar) != "" {
		limit, rows = 256<<20, 10_000_000
	}
	store, err := objstore.OpenLocal(t.TempDir(), objstore.LocalOptions{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	table := newTable(t, store, "large", specs...)
	table, _, err = table.Append(t.Context(), &many{left: rows}, lake.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := overlay.NewSet(store, overlay.Options{Memory: limit, SpillDir: t.TempDir()})
	defer s.Close()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	before, peak := m.HeapAlloc, uint64(0)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
				runtime.GC() // what is counted is held, not garbage
				runtime.ReadMemStats(&m)
				peak = max(peak, m.HeapAlloc)
			}
		}
	}()
	_, err = s.Of(table).Cover(t.Context(), table, overlay.BuildOptions{})
	close(stop)
	<-stopped
	indexes := specs
	if rows == 1_000_000 {
		// A Bloom filter of so many values wants more. The others are built all the same.
		if !errs.Is(err, errs.Exhausted) {
			t.Fatalf("a filter without room for it: %v", err)
		}
		indexes = specs[:4]
	} else if err != nil {
		t.Fatal(err)
	}
	held := int64(peak) - int64(before)
	t.Logf("held at most %d MiB above the start", held>>20)
	// Beside the builders there are the pages of the file that is read, and what is written out.
	if held > limit+48<<20 {
		t.Errorf("the build held %d bytes, its limit is %d", held, limit)
	}
	for _, d := range specs[len(indexes):] {
		if err := s.Of(table).Drop(t.Context(), d.Name); err != nil {
			t.Fatal(err)
		}
	}
	one(t, s, table, indexes...)
	plan, err := table.Plan(t.Context(), lake.Ref{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	view, err := s.Of(table).View(t.Context(), plan.Schema)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []int64{0, 7919, 500_000, 1_000_002} {
		bound, err := table.Bind(lake.Ref{}, predicate.Compare{Column: "id", Op: predicate.Eq, Value: id})
		if err != nil {
			t.Fatal(err)
		}
		sum, ok, err := search.Summarize(t.Context(), plan, bound, view, 0)
		if err != nil || !ok || sum.Rows > (rows+1_000_002)/1_000_003 {
			t.Errorf("id %d: %+v, %v, %v", id, sum, ok, err)
		}
	}
}
