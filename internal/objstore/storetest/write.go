package storetest

import (
	"bytes"
	"context"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/objstore"
)

func buffersStayTheCallers(t *testing.T, s objstore.Store) {
	data := []byte("put")
	if _, err := s.Put(t.Context(), "a", data, always); err != nil {
		t.Fatal(err)
	}
	copy(data, "xxx")
	w := create(t, s, "b", always)
	copy(data, "one")
	write(t, w, string(data))
	for _, word := range []string{"two", "six"} {
		copy(data, word)
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	copy(data, "yyy")
	commit(t, w)
	if a, b := get(t, s, "a"), get(t, s, "b"); a != "put" || b != "onetwosix" {
		t.Errorf("stored are %q and %q", a, b)
	}
	// What a reader does to its buffer is its own business too.
	o, err := s.Open(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if _, err := o.ReadAt(data, 0); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	copy(data, "zzz")
	if got := get(t, s, "a"); got != "put" {
		t.Errorf("after a reader wrote into its buffer the object is %q", got)
	}
}

func deletedIsGone(t *testing.T, s objstore.Store) {
	put(t, s, "a/b/one", "1")
	put(t, s, "a/two", "2")
	for range 2 {
		if err := s.Delete(t.Context(), "a/b/one"); err != nil {
			t.Error(err)
		}
	}
	_, err := s.Stat(t.Context(), "a/b/one")
	wantKind(t, err, errs.NotFound)
	for _, absent := range []string{"a", "a/b", "a/two/three", "z/y/x"} {
		if err := s.Delete(t.Context(), absent); err != nil {
			t.Errorf("deleting %s, which is no object: %v", absent, err)
		}
	}
	wantNames(t, s, "a/two")
	put(t, s, "a/b", "a name that was a directory's")
	if err := s.Delete(t.Context(), "a/two"); err != nil {
		t.Error(err)
	}
	wantNames(t, s, "a/b")
}

func streams(t *testing.T, s objstore.Store) {
	put(t, s, "big/one", "the old one")
	w := create(t, s, "big/one", always)
	part := letters(100_000)
	for range 30 {
		write(t, w, part)
	}
	other := create(t, s, "big/two", always)
	write(t, other, part)
	empty := create(t, s, "empty", always)
	wantNames(t, s, "big/one")
	if got := get(t, s, "big/one"); got != "the old one" {
		t.Errorf("before Commit it reads %d bytes", len(got))
	}
	if info := commit(t, w); info.Size != 3_000_000 || info.Name != "big/one" {
		t.Errorf("Commit says %+v", info)
	}
	data := get(t, s, "big/one")
	for i := range 30 {
		if data[i*100_000:(i+1)*100_000] != part {
			t.Fatalf("part %d differs", i)
		}
	}
	if err := other.Abort(); err != nil {
		t.Error(err)
	}
	if info := commit(t, empty); info.Size != 0 {
		t.Errorf("an empty stream has %d bytes", info.Size)
	}
	wantNames(t, s, "big/one", "empty")
}

func spentWriters(t *testing.T, s objstore.Store) {
	end := map[string]func(objstore.Writer){
		"Commit": func(w objstore.Writer) { commit(t, w) },
		"Abort": func(w objstore.Writer) {
			if err := w.Abort(); err != nil {
				t.Error(err)
			}
		},
		"a failed Commit": func(w objstore.Writer) {
			if _, err := w.Commit(cancelled(t)); err == nil {
				t.Error("a cancelled Commit worked")
			}
		},
	}
	for how, end := range end {
		w := create(t, s, "x", always)
		write(t, w, how)
		end(w)
		before := all(t, s, "")
		if _, err := w.Write([]byte("more")); !errs.Is(err, errs.Invalid) {
			t.Errorf("Write after %s gives %v", how, err)
		}
		if _, err := w.Commit(t.Context()); !errs.Is(err, errs.Invalid) {
			t.Errorf("Commit after %s gives %v", how, err)
		}
		if err := w.Abort(); err != nil {
			t.Errorf("Abort after %s gives %v", how, err)
		}
		wantNames(t, s, before...)
		if len(before) > 0 && get(t, s, "x") != "Commit" {
			t.Errorf("after %s the object reads %q", how, get(t, s, "x"))
		}
	}
}

func conditions(t *testing.T, s objstore.Store) {
	ctx := t.Context()
	first, err := s.Put(ctx, "p", []byte("1"), objstore.Condition{IfAbsent: true})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Put(ctx, "p", []byte("2"), objstore.Condition{IfAbsent: true})
	wantKind(t, err, errs.Exists)
	if _, err = s.Put(ctx, "p", []byte("3"), objstore.Condition{IfMatch: first.ETag}); err != nil {
		t.Fatal(err)
	}
	_, err = s.Put(ctx, "p", []byte("4"), objstore.Condition{IfMatch: first.ETag})
	wantKind(t, err, errs.Conflict)
	_, err = s.Put(ctx, "q", []byte("5"), objstore.Condition{IfMatch: first.ETag})
	wantKind(t, err, errs.Conflict)
	_, err = s.Put(ctx, "p", []byte("6"), objstore.Condition{IfMatch: "no such tag"})
	wantKind(t, err, errs.Conflict)
	both := objstore.Condition{IfAbsent: true, IfMatch: first.ETag}
	_, err = s.Put(ctx, "r", []byte("7"), both)
	wantKind(t, err, errs.Invalid)
	_, err = s.Create(ctx, "r", both)
	wantKind(t, err, errs.Invalid)
	if get(t, s, "p") != "3" {
		t.Error("a refused write changed the object")
	}
	wantNames(t, s, "p")
	if err := s.Delete(ctx, "p"); err != nil {
		t.Fatal(err)
	}
	if _, err = s.Put(ctx, "p", []byte("8"), objstore.Condition{IfAbsent: true}); err != nil {
		t.Errorf("a deleted name is not absent: %v", err)
	}
}

// streamConditions checks that a condition is judged when a stream is committed, not when it is begun.
func streamConditions(t *testing.T, s objstore.Store) {
	early := create(t, s, "p", objstore.Condition{IfAbsent: true})
	write(t, early, "early")
	late := create(t, s, "p", objstore.Condition{IfAbsent: true})
	write(t, late, "late")
	info := commit(t, late)
	_, err := early.Commit(t.Context())
	wantKind(t, err, errs.Exists)
	a := create(t, s, "p", objstore.Condition{IfMatch: info.ETag})
	b := create(t, s, "p", objstore.Condition{IfMatch: info.ETag})
	write(t, a, "a")
	write(t, b, "b")
	commit(t, b)
	_, err = a.Commit(t.Context())
	wantKind(t, err, errs.Conflict)
	if got := get(t, s, "p"); got != "b" {
		t.Errorf("the object is %q", got)
	}
	wantNames(t, s, "p")
}

// versionsDiffer replaces, deletes and creates a name as fast as it can: no ETag may come back.
func versionsDiffer(t *testing.T, s objstore.Store) {
	seen := map[string]int{}
	note := func(i int, info objstore.Info) {
		if j, twice := seen[info.ETag]; twice {
			t.Fatalf("versions %d and %d have the same ETag %s", j, i, info.ETag)
		}
		seen[info.ETag] = i
	}
	for i := range 200 {
		note(i, put(t, s, "x", nameOf("%03d", i)))
		if i%3 == 0 {
			if err := s.Delete(t.Context(), "x"); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func everyChangeBreaksAMatch(t *testing.T, s objstore.Store) {
	info := put(t, s, "x", "same")
	put(t, s, "x", "same")
	_, err := s.Put(t.Context(), "x", nil, objstore.Condition{IfMatch: info.ETag})
	wantKind(t, err, errs.Conflict)
	info = put(t, s, "x", "same")
	if err := s.Delete(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	_, err = s.Put(t.Context(), "x", nil, objstore.Condition{IfMatch: info.ETag})
	wantKind(t, err, errs.Conflict)
	put(t, s, "x", "same")
	_, err = s.Put(t.Context(), "x", nil, objstore.Condition{IfMatch: info.ETag})
	wantKind(t, err, errs.Conflict)
}

func oneWinner(t *testing.T, s objstore.Store) {
	for round := range 20 {
		var created, swapped atomic.Int32
		var winner atomic.Int32
		base := put(t, s, nameOf("cas-%d", round), "0")
		fresh := nameOf("d%d/new", round)
		var wg sync.WaitGroup
		for w := range 8 {
			wg.Go(func() {
				_, err := s.Put(context.Background(), fresh, []byte{byte(w)}, objstore.Condition{IfAbsent: true})
				switch {
				case err == nil:
					created.Add(1)
					winner.Store(int32(w))
				case !errs.Is(err, errs.Exists):
					t.Errorf("a loser got %v", err)
				}
				_, err = s.Put(context.Background(), base.Name, []byte{byte(w)}, objstore.Condition{IfMatch: base.ETag})
				switch {
				case err == nil:
					swapped.Add(1)
				case !errs.Is(err, errs.Conflict):
					t.Errorf("a loser got %v", err)
				}
			})
		}
		wg.Wait()
		if created.Load() != 1 || swapped.Load() != 1 {
			t.Fatalf("round %d: %d creators and %d swappers won", round, created.Load(), swapped.Load())
		}
		if got := get(t, s, fresh); got[0] != byte(winner.Load()) {
			t.Errorf("writer %d won and the object is writer %d's", winner.Load(), got[0])
		}
	}
}

// noSwapIsLost counts up by compare and swap from several goroutines.
func noSwapIsLost(t *testing.T, s objstore.Store) {
	const goroutines, each = 4, 15
	put(t, s, "n", "0")
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for done := 0; done < each; {
				data, info, err := objstore.ReadAll(context.Background(), s, "n", 100)
				if err != nil {
					t.Error(err)
					return
				}
				n, err := strconv.Atoi(string(data))
				if err != nil {
					t.Error(err)
					return
				}
				_, err = s.Put(context.Background(), "n", strconv.AppendInt(nil, int64(n+1), 10), objstore.Condition{IfMatch: info.ETag})
				switch {
				case err == nil:
					done++
				case !errs.Is(err, errs.Conflict):
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if got := get(t, s, "n"); got != strconv.Itoa(goroutines*each) {
		t.Errorf("the count is %s, want %d", got, goroutines*each)
	}
}

// nobodySeesHalf reads an object that writers replace all the time: every version is one letter repeated.
func nobodySeesHalf(t *testing.T, s objstore.Store) {
	put(t, s, "x", "")
	done := make(chan struct{})
	var wg sync.WaitGroup
	for g := range 2 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				data := bytes.Repeat([]byte{byte('a' + i%26)}, 1000+(i*7919+g)%50_000)
				if _, err := s.Put(context.Background(), "x", data, always); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 100 {
		data := get(t, s, "x")
		if len(data) > 0 && len(bytes.Trim([]byte(data), data[:1])) != 0 {
			t.Fatal("a reader saw parts of two versions")
		}
	}
	close(done)
	wg.Wait()
}
