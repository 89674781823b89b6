package objstore_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/objstore"
)

// process is a spawned child.
type process struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner // by lines
}

// spawn runs this test binary again in a role of child.
func spawn(t *testing.T, role, dir string, env ...string) process {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(append(os.Environ(), "OBJSTORE_CHILD="+role, "OBJSTORE_DIR="+dir), env...)
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return process{c, in, bufio.NewScanner(out)}
}

// child is the main function of a spawned process; a failure is a panic, which the parent sees as an exit status.
func child(role, dir string) {
	ctx := context.Background()
	s, err := objstore.OpenLocal(dir, objstore.LocalOptions{NoSync: true})
	if err != nil {
		panic(err)
	}
	switch role {
	case "race":
		raceChild(ctx, s)
	case "die":
		n, err := strconv.Atoi(os.Getenv("OBJSTORE_STEP"))
		if err != nil {
			panic(err)
		}
		objstore.Trace(s, func(string) {
			if n--; n == 0 {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				time.Sleep(time.Hour) // until the signal comes
			}
		})
		dieChild(ctx, s)
	case "hold":
		// A living writer that waits until its input ends.
		w, err := s.Create(ctx, "held", objstore.Condition{})
		if err != nil {
			panic(err)
		}
		fmt.Println("ready")
		_, _ = io.Copy(io.Discard, os.Stdin)
		if _, err := w.Commit(ctx); err != nil {
			panic(err)
		}
	case "stuck":
		// Stops for ever with the store's lock.
		objstore.Trace(s, func(step string) {
			if strings.HasPrefix(step, "compare") {
				fmt.Println("ready")
				time.Sleep(time.Hour) // the parent kills us long before
			}
		})
		_, _ = s.Put(ctx, "a", nil, objstore.Condition{})
	default:
		panic("no such role: " + role)
	}
}

const (
	raceProcesses = 4
	raceRounds    = 100
	raceSwaps     = 25
)

// raceChild creates the same names as its siblings, prints those that it won, and counts up one object by compare and
// swap, between unconditional writes and deletes of others.
func raceChild(ctx context.Context, s objstore.Store) {
	in := bufio.NewReader(os.Stdin)
	for round := range raceRounds {
		// The parent starts each round for all children at once.
		if _, err := in.ReadString('\n'); err != nil {
			panic(err)
		}
		name := fmt.Sprintf("d%d/n%d", round%7, round)
		_, err := s.Put(ctx, name, []byte(strconv.Itoa(os.Getpid())), objstore.Condition{IfAbsent: true})
		switch {
		case err == nil:
			fmt.Println("won", name, os.Getpid())
		case errs.Is(err, errs.Exists):
			fmt.Println("lost", name)
		default:
			panic(err)
		}
	}
	for done := 0; done < raceSwaps; {
		data, info, err := objstore.ReadAll(ctx, s, "counter", 1<<20)
		cond := objstore.Condition{IfMatch: info.ETag}
		if errs.Is(err, errs.NotFound) {
			cond = objstore.Condition{IfAbsent: true}
		} else if err != nil {
			panic(err)
		}
		switch _, err := s.Put(ctx, "counter", append(data, 'x'), cond); {
		case err == nil:
			done++
		case !errs.Is(err, errs.Conflict) && !errs.Is(err, errs.Exists):
			panic(err)
		}
		// Names of one directory that comes and goes.
		if _, err := s.Put(ctx, "flicker/x", nil, objstore.Condition{}); err != nil {
			panic(err)
		}
		if err := s.Delete(ctx, "flicker/x"); err != nil {
			panic(err)
		}
	}
	fmt.Println("done", raceSwaps)
}

// TestProcessesRace lets several processes write the same names: of the creators of one exactly one wins each round, and
// no acknowledged swap is lost.
func TestProcessesRace(t *testing.T) {
	dir := t.TempDir()
	var processes []process
	for range raceProcesses {
		processes = append(processes, spawn(t, "race", dir))
	}
	winner := map[string]string{}
	for round := range raceRounds {
		for _, p := range processes {
			if _, err := io.WriteString(p.in, "go\n"); err != nil {
				t.Fatal(err)
			}
		}
		won := 0
		for _, p := range processes {
			if !p.out.Scan() {
				t.Fatalf("a process ended in round %d", round)
			}
			if words := strings.Fields(p.out.Text()); words[0] == "won" {
				won++
				winner[words[1]] = words[2]
			}
		}
		if won != 1 {
			t.Fatalf("round %d has %d winners", round, won)
		}
	}
	for _, p := range processes {
		if !p.out.Scan() || p.out.Text() != fmt.Sprint("done ", raceSwaps) {
			t.Errorf("a process said %q at the end", p.out.Text())
		}
		if err := p.Wait(); err != nil {
			t.Error(err)
		}
	}
	s := openDir(t, dir, objstore.LocalOptions{})
	for name, pid := range winner {
		data, _, err := objstore.ReadAll(t.Context(), s, name, 100)
		if err != nil || string(data) != pid {
			t.Errorf("%s was won by %s and holds %q, %v", name, pid, data, err)
		}
	}
	data, _, err := objstore.ReadAll(t.Context(), s, "counter", 1<<20)
	if err != nil || len(data) != raceProcesses*raceSwaps {
		t.Errorf("the counter holds %d swaps, want %d; %v", len(data), raceProcesses*raceSwaps, err)
	}
	if left := temporaries(t, dir); len(left) != 0 {
		t.Errorf("temporary files stay: %q", left)
	}
}

func temporaries(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, ".overlake/tmp"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// dieChild is the history that is killed at every step. It prints what was acknowledged.
func dieChild(ctx context.Context, s objstore.Store) {
	a, err := s.Put(ctx, "d/a", bytes.Repeat([]byte("1"), 10_000), objstore.Condition{IfAbsent: true})
	if err != nil {
		panic(err)
	}
	fmt.Println("create")
	if _, err := s.Put(ctx, "d/a", bytes.Repeat([]byte("2"), 10_000), objstore.Condition{IfMatch: a.ETag}); err != nil {
		panic(err)
	}
	fmt.Println("swap")
	w, err := s.Create(ctx, "d/e/b", objstore.Condition{})
	if err != nil {
		panic(err)
	}
	for range 2 {
		if _, err := w.Write(bytes.Repeat([]byte("3"), 5_000)); err != nil {
			panic(err)
		}
	}
	if _, err := w.Commit(ctx); err != nil {
		panic(err)
	}
	fmt.Println("stream")
	if err := s.Delete(ctx, "d/e/b"); err != nil {
		panic(err)
	}
	fmt.Println("delete")
}

// TestKilledAtEveryStep kills a process before each step of a history: what it acknowledged is there, of the rest at
// most the operation in flight, nothing is half, the next process can write, and its first write sweeps.
func TestKilledAtEveryStep(t *testing.T) {
	// The contents of d/a and d/e/b after each acknowledgement.
	states := [][2]string{{"", ""}, {"1", ""}, {"2", ""}, {"2", "3"}, {"2", ""}}
	acks := []string{"create", "swap", "stream", "delete"}
	killed, swept := 0, false
	for step := 1; ; step++ {
		dir := t.TempDir()
		p := spawn(t, "die", dir, fmt.Sprint("OBJSTORE_STEP=", step))
		var acked []string
		for p.out.Scan() {
			acked = append(acked, p.out.Text())
		}
		if p.out.Err() != nil {
			t.Fatal(p.out.Err())
		}
		err := p.Wait()
		if !slices.Equal(acked, acks[:len(acked)]) {
			t.Fatalf("step %d: acknowledged were %q", step, acked)
		}
		s := openDir(t, dir, objstore.LocalOptions{})
		var got [2]string
		for i, name := range []string{"d/a", "d/e/b"} {
			data, _, err := objstore.ReadAll(t.Context(), s, name, 1<<20)
			if errs.Is(err, errs.NotFound) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(data) != 10_000 || len(bytes.Trim(data, string(data[:1]))) != 0 {
				t.Errorf("step %d: %s is not whole", step, name)
			}
			got[i] = string(data[:1])
		}
		if got != states[len(acked)] && (len(acked) == len(acks) || got != states[len(acked)+1]) {
			t.Errorf("step %d: after %q the objects are %q", step, acked, got)
		}
		left := temporaries(t, dir)
		swept = swept || len(left) > 0
		put(t, s, "d/next", "")
		if after := temporaries(t, dir); len(after) != 0 {
			t.Errorf("step %d: %q were not swept", step, after)
		}
		for _, name := range names(t, s) {
			if name != "d/a" && name != "d/e/b" && name != "d/next" {
				t.Errorf("step %d: %s is listed", step, name)
			}
		}
		if err == nil {
			break
		}
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("step %d: %v", step, err)
		}
		killed++
	}
	if killed < 20 || !swept {
		t.Errorf("%d steps were interrupted, leftovers seen: %v", killed, swept)
	}
}

// TestSweepSparesTheLiving sweeps beside a writer of another process and one of this.
func TestSweepSparesTheLiving(t *testing.T) {
	dir := t.TempDir()
	other := spawn(t, "hold", dir)
	if !other.out.Scan() || other.out.Text() != "ready" {
		t.Fatalf("the child said %q, %v", other.out.Text(), other.out.Err())
	}
	s := openDir(t, dir, objstore.LocalOptions{})
	mine, err := s.Create(t.Context(), "mine", always)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mine.Write([]byte("12345")); err != nil {
		t.Fatal(err)
	}
	dead := filepath.Join(dir, ".overlake/tmp/0123456789abcdef")
	if err := os.WriteFile(dead, make([]byte, 77), 0o666); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(dir, ".overlake/tmp/README")
	if err := os.WriteFile(foreign, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	swept, err := s.(objstore.Sweeper).Sweep(t.Context())
	if err != nil || swept != (objstore.Swept{Files: 1, Bytes: 77}) {
		t.Errorf("swept %+v, %v", swept, err)
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Error("a file that is not ours was swept")
	}
	if len(temporaries(t, dir)) != 3 {
		t.Errorf("left are %q", temporaries(t, dir))
	}
	if _, err := mine.Commit(t.Context()); err != nil {
		t.Error(err)
	}
	if err := other.in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := other.Wait(); err != nil {
		t.Error(err)
	}
	if got := names(t, s); !slices.Equal(got, []string{"held", "mine"}) {
		t.Errorf("it lists %q", got)
	}
}

// TestSweepersAndWritersTogether sweeps as fast as writers write; the race between making a temporary file and locking it
// must never lose one.
func TestSweepersAndWritersTogether(t *testing.T) {
	dir := t.TempDir()
	sweeper := openDir(t, dir, objstore.LocalOptions{NoSync: true}).(objstore.Sweeper)
	stop := make(chan struct{})
	failed := make(chan error, 1)
	go func() {
		defer close(failed)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := sweeper.Sweep(context.Background()); err != nil {
				failed <- err
				return
			}
		}
	}()
	s := openDir(t, dir, objstore.LocalOptions{NoSync: true})
	for i := range 500 {
		put(t, s, fmt.Sprint("n", i), "x")
	}
	close(stop)
	if err := <-failed; err != nil {
		t.Error(err)
	}
	if n := len(names(t, s)); n != 500 {
		t.Errorf("%d of 500 objects are there", n)
	}
}

// TestStuckProcess waits for the lock of a process that never lets it go: the context ends the wait, writers that need
// no lock go on, and the lock ends with the process.
func TestStuckProcess(t *testing.T) {
	dir := t.TempDir()
	other := spawn(t, "stuck", dir)
	if !other.out.Scan() || other.out.Text() != "ready" {
		t.Fatalf("the child said %q, %v", other.out.Text(), other.out.Err())
	}
	s := openDir(t, dir, objstore.LocalOptions{NoSync: true})
	for range 2 {
		ctx, stop := context.WithTimeout(t.Context(), 30*time.Millisecond)
		_, err := s.Put(ctx, "a", nil, always)
		stop()
		if !errs.Is(err, errs.Canceled) {
			t.Errorf("waiting for a stuck process gave %v", err)
		}
	}
	if _, err := s.Put(t.Context(), "b", nil, objstore.Condition{IfAbsent: true}); err != nil {
		t.Error(err)
	}
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait()
	put(t, s, "a", "")
}

// TestRemovedLockFile removes the lock file, as somebody who cleans up may: the store makes another.
func TestRemovedLockFile(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir, objstore.LocalOptions{NoSync: true})
	put(t, s, "a", "1")
	if err := os.RemoveAll(filepath.Join(dir, ".overlake")); err != nil {
		t.Fatal(err)
	}
	put(t, s, "a", "2")
	if err := s.Delete(t.Context(), "a"); err != nil {
		t.Error(err)
	}
}
