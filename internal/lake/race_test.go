package lake_test

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/objstore"
)

// workerVar turns TestWorker of a copy of this test program into another process at the same warehouse.
const workerVar = "OVERLAKE_TEST_LAKE_WORKER"

// openShared opens a warehouse directory as several processes do.
func openShared(t testing.TB, kind, dir string) lake.Catalog {
	t.Helper()
	s, err := objstore.OpenLocal(dir, objstore.LocalOptions{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	if kind == "file" {
		return lake.OpenFileCatalog(s)
	}
	c, err := lake.OpenSQLiteCatalog(t.Context(), filepath.Join(dir, "catalog.db"), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestWorker is the other process: "KIND DIR create" or "KIND DIR append FROM COUNT". It says what was acknowledged.
func TestWorker(t *testing.T) {
	job := strings.Fields(os.Getenv(workerVar))
	if len(job) == 0 {
		t.Skip("only run by other tests, as a process of its own")
	}
	c := openShared(t, job[0], job[1])
	if job[2] == "create" {
		if _, err := c.Create(t.Context(), docs, lake.CreateSpec{Schema: schema()}); err == nil {
			fmt.Println("ack won")
		} else if !errs.Is(err, errs.Exists) {
			t.Error(err)
		}
		return
	}
	from, _ := strconv.Atoi(job[3])
	count, _ := strconv.Atoi(job[4])
	for i := from; i < from+count; i++ {
		tbl, err := c.Load(t.Context(), docs)
		if err == nil {
			_, _, err = tbl.Append(t.Context(), rowsOf(t, i, i+1), lake.WriteOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("ack", i)
	}
}

type worker struct {
	cmd *exec.Cmd
	mu  sync.Mutex
	ack []string
	end chan error
}

func startWorker(t *testing.T, job string) *worker {
	t.Helper()
	w := &worker{cmd: exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWorker$"), end: make(chan error, 1)}
	w.cmd.Env = append(os.Environ(), workerVar+"="+job)
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		for sc := bufio.NewScanner(out); sc.Scan(); {
			if s, ok := strings.CutPrefix(sc.Text(), "ack "); ok {
				w.mu.Lock()
				w.ack = append(w.ack, s)
				w.mu.Unlock()
			}
		}
		w.end <- w.cmd.Wait()
	}()
	return w
}

func (w *worker) acks() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.ack...)
}

// TestProcessesAppend has three processes append to one table and kills one of them with no warning. Every acknowledged
// row is there once; of the killed process at most one more, whose answer was lost with it.
func TestProcessesAppend(t *testing.T) {
	for _, kind := range []string{"file", "sqlite"} {
		t.Run(kind, func(t *testing.T) {
			dir := t.TempDir()
			c := openShared(t, kind, dir)
			create(t, c, lake.CreateSpec{Properties: map[string]string{"commit.retry.num-retries": "10"}})
			const each = 12
			var workers []*worker
			for k := range 3 {
				workers = append(workers, startWorker(t, fmt.Sprintf("%s %s append %d %d", kind, dir, k*1000, each)))
			}
			for len(workers[2].acks()) < 3 {
				time.Sleep(time.Millisecond)
			}
			if err := workers[2].cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			want := map[int64]bool{}
			for k, w := range workers {
				if err := <-w.end; (err == nil) != (k < 2) {
					t.Errorf("process %d ended with %v", k, err)
				}
				for _, a := range w.acks() {
					id, _ := strconv.ParseInt(a, 10, 64)
					want[id] = true
				}
			}
			tbl, err := openShared(t, kind, dir).Load(t.Context(), docs)
			if err != nil {
				t.Fatal(err)
			}
			got := ids(t, tbl, lake.Ref{})
			extra := 0
			for id, n := range got {
				if n != 1 {
					t.Errorf("row %d is there %d times", id, n)
				}
				if !want[id] {
					extra++
				}
			}
			for id := range want {
				if got[id] == 0 {
					t.Errorf("row %d was acknowledged and is gone", id)
				}
			}
			if extra > 1 || len(want) < 2*each+3 {
				t.Errorf("%d rows acknowledged, %d more", len(want), extra)
			}
			wantIDs(t, ids(t, appendRows(t, tbl, 5000, 5005), lake.Ref{}), len(got)+5)
		})
	}
}

// TestProcessesCreate: exactly one of several processes creates the table.
func TestProcessesCreate(t *testing.T) {
	for _, kind := range []string{"file", "sqlite"} {
		dir := t.TempDir()
		openShared(t, kind, dir)
		var workers []*worker
		for range 4 {
			workers = append(workers, startWorker(t, kind+" "+dir+" create"))
		}
		won := 0
		for _, w := range workers {
			if err := <-w.end; err != nil {
				t.Errorf("%s: %v", kind, err)
			}
			won += len(w.acks())
		}
		if won != 1 {
			t.Errorf("%s: %d processes created the table", kind, won)
		}
	}
}

func TestCreateRace(t *testing.T) {
	catalogs(t, func(t *testing.T, c lake.Catalog) {
		var wg sync.WaitGroup
		uuids := make(chan string, 8)
		for range 8 {
			wg.Go(func() {
				tbl, err := c.Create(context.Background(), docs, lake.CreateSpec{Schema: schema()})
				if err == nil {
					uuids <- tbl.UUID()
				} else if !errs.Is(err, errs.Exists) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		close(uuids)
		tbl, err := c.Load(t.Context(), docs)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for u := range uuids {
			if n++; u != tbl.UUID() {
				t.Errorf("%s won, the table is %s", u, tbl.UUID())
			}
		}
		if n != 1 {
			t.Errorf("%d winners", n)
		}
	})
}

// TestDropCreateAppendRace drops and creates a table again and again while others append to it, each through a catalog
// value of its own. An append is acknowledged to the table it went to; the table that is left holds exactly its own rows.
func TestDropCreateAppendRace(t *testing.T) {
	for _, kind := range []string{"file", "sqlite"} {
		t.Run(kind, func(t *testing.T) {
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			dir := t.TempDir()
			create(t, openShared(t, kind, dir), lake.CreateSpec{})
			var mu sync.Mutex
			acked := map[string]map[int64]bool{} // UUID → ids
			stop := make(chan struct{})
			var writers sync.WaitGroup
			for k := range 3 {
				c := openShared(t, kind, dir)
				rng := rand.New(rand.NewPCG(seed, uint64(k)))
				writers.Go(func() {
					var tbl *lake.Table
					for i := k * 100_000; ; i++ {
						select {
						case <-stop:
							return
						default:
						}
						if tbl == nil || rng.IntN(3) == 0 { // otherwise go on with a stale handle
							var err error
							if tbl, err = c.Load(context.Background(), docs); err != nil {
								if !errs.Is(err, errs.NotFound) {
									t.Error(err)
								}
								tbl = nil
								continue
							}
						}
						next, _, err := tbl.Append(context.Background(), rowsOf(t, i, i+1), lake.WriteOptions{})
						switch {
						case err == nil:
							mu.Lock()
							if acked[next.UUID()] == nil {
								acked[next.UUID()] = map[int64]bool{}
							}
							acked[next.UUID()][int64(i)] = true
							mu.Unlock()
							tbl = next
						case errs.Is(err, errs.NotFound) || errs.Is(err, errs.Conflict):
							tbl = nil
						default:
							t.Errorf("%v (%v)", err, errs.KindOf(err))
							tbl = nil
						}
					}
				})
			}
			c := openShared(t, kind, dir)
			for range 15 {
				time.Sleep(15 * time.Millisecond)
				if err := c.Drop(t.Context(), docs); err != nil {
					t.Error(err)
				}
				if _, err := c.Create(t.Context(), docs, lake.CreateSpec{Schema: schema()}); err != nil {
					t.Error(err)
				}
			}
			time.Sleep(50 * time.Millisecond)
			close(stop)
			writers.Wait()
			tbl, err := openShared(t, kind, dir).Load(t.Context(), docs)
			if err != nil {
				t.Fatal(err)
			}
			got := ids(t, tbl, lake.Ref{})
			want := acked[tbl.UUID()]
			if len(got) != len(want) {
				t.Errorf("%d rows, %d acknowledged", len(got), len(want))
			}
			for id := range maps.Keys(want) {
				if got[id] != 1 {
					t.Errorf("row %d is there %d times", id, got[id])
				}
			}
		})
	}
}

// TestLostRacesLeaveNothingBehind counts the objects after many lost races: each append has one data file, one manifest
// and one manifest list, and nothing else is there.
func TestLostRacesLeaveNothingBehind(t *testing.T) {
	s := local(t)
	const writers, each = 4, 5
	create(t, lake.OpenFileCatalog(s), lake.CreateSpec{})
	var wg sync.WaitGroup
	for w := range writers {
		tbl, err := lake.OpenFileCatalog(s).Load(t.Context(), docs)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			for k := range each {
				if _, _, err := tbl.Append(context.Background(), rowsOf(t, w*100+k, w*100+k+1), lake.WriteOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	got := objectKinds(t, s)
	want := map[string]int{"data": writers * each, "manifest": writers * each, "list": writers * each, "metadata": writers*each + 1, "hint": 1}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// objectKinds counts the objects of a store by what they are.
func objectKinds(t testing.TB, s objstore.Reader) map[string]int {
	t.Helper()
	out := map[string]int{}
	for info, err := range s.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		base := filepath.Base(info.Name)
		switch {
		case base == "version-hint.text":
			out["hint"]++
		case strings.HasSuffix(base, ".metadata.json"):
			out["metadata"]++
		case strings.HasPrefix(base, "snap-"):
			out["list"]++
		case strings.HasSuffix(base, ".avro"):
			out["manifest"]++
		case strings.Contains(info.Name, "/data/"):
			out["data"]++
		default:
			out[info.Name]++
		}
	}
	return out
}
