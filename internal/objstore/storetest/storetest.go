// Package storetest is the law of every store, written once: see the promises O1 to O5 of package objstore.
package storetest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/objstore"
)

// Run checks a kind of store; open returns an empty one each time.
func Run(t *testing.T, open func(t *testing.T) objstore.Store) {
	for name, law := range map[string]func(*testing.T, objstore.Store){
		"ReadsWhatWasWritten": readsWhatWasWritten, "Conditions": conditions, "OneWinner": oneWinner,
		"ListInOrder": listInOrder, "Names": names, "Streams": streams, "OpenObjectsStay": openObjectsStay,
		"Cancel": cancel,
	} {
		t.Run(name, func(t *testing.T) { law(t, open(t)) })
	}
}

func put(t *testing.T, s objstore.Store, name, data string) objstore.Info {
	t.Helper()
	info, err := s.Put(t.Context(), name, []byte(data), objstore.Condition{})
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func get(t *testing.T, s objstore.Reader, name string) string {
	t.Helper()
	data, _, err := objstore.ReadAll(t.Context(), s, name, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func wantKind(t *testing.T, err error, kind errs.Kind) {
	t.Helper()
	if !errs.Is(err, kind) {
		t.Errorf("got %v, want an error of kind %v", err, kind)
	}
}

func readsWhatWasWritten(t *testing.T, s objstore.Store) {
	info := put(t, s, "a/b/c.txt", "hello, world")
	if info.Size != 12 || info.ETag == "" || info.Name != "a/b/c.txt" {
		t.Errorf("info %+v", info)
	}
	got, err := s.Stat(t.Context(), "a/b/c.txt")
	if err != nil || got.Size != 12 || got.ETag != info.ETag {
		t.Errorf("stat %+v, %v", got, err)
	}
	o, err := s.Open(t.Context(), "a/b/c.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	buf := make([]byte, 5)
	if n, err := o.ReadAt(buf, 7); n != 5 || string(buf) != "world" || err != nil && err != io.EOF {
		t.Errorf("ranged read %q, %v", buf[:n], err)
	}
	if n, err := o.ReadAt(buf, 10); n != 2 || err != io.EOF {
		t.Errorf("a read past the end gave %d bytes, %v", n, err)
	}
	for _, op := range []func() error{
		func() error { _, err := s.Open(t.Context(), "a/b/none"); return err },
		func() error { _, err := s.Stat(t.Context(), "a/b"); return err },
		func() error { _, err := s.Open(t.Context(), "a"); return err },
		func() error { _, err := s.Stat(t.Context(), "a/b/c.txt/d"); return err },
	} {
		wantKind(t, op(), errs.NotFound)
	}
	put(t, s, "a/b/c.txt", "")
	if get(t, s, "a/b/c.txt") != "" {
		t.Error("an empty object is not empty")
	}
	for range 2 {
		if err := s.Delete(t.Context(), "a/b/c.txt"); err != nil {
			t.Error(err)
		}
	}
	_, err = s.Stat(t.Context(), "a/b/c.txt")
	wantKind(t, err, errs.NotFound)
	put(t, s, "a/b", "a name that was a directory's")
}

func conditions(t *testing.T, s objstore.Store) {
	ctx := t.Context()
	first, err := s.Put(ctx, "p", []byte("1"), objstore.Condition{IfAbsent: true})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Put(ctx, "p", []byte("2"), objstore.Condition{IfAbsent: true})
	wantKind(t, err, errs.Exists)
	second, err := s.Put(ctx, "p", []byte("3"), objstore.Condition{IfMatch: first.ETag})
	if err != nil {
		t.Fatal(err)
	}
	if second.ETag == first.ETag {
		t.Error("a replaced object kept its etag")
	}
	_, err = s.Put(ctx, "p", []byte("4"), objstore.Condition{IfMatch: first.ETag})
	wantKind(t, err, errs.Conflict)
	_, err = s.Put(ctx, "q", []byte("5"), objstore.Condition{IfMatch: first.ETag})
	wantKind(t, err, errs.Conflict)
	if get(t, s, "p") != "3" {
		t.Error("a refused write changed the object")
	}
	w, err := s.Create(ctx, "p", objstore.Condition{IfAbsent: true})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(w, "6")
	_, err = w.Commit(ctx)
	wantKind(t, err, errs.Exists)
	if n := len(all(t, s, "")); n != 1 {
		t.Errorf("%d objects after refused writes", n)
	}
}

func oneWinner(t *testing.T, s objstore.Store) {
	for round := range 20 {
		var wins atomic.Int32
		var wg sync.WaitGroup
		base := put(t, s, fmt.Sprintf("cas-%d", round), "0")
		var swaps atomic.Int32
		for w := range 8 {
			wg.Go(func() {
				if _, err := s.Put(context.Background(), fmt.Sprintf("new-%d", round), []byte{byte(w)}, objstore.Condition{IfAbsent: true}); err == nil {
					wins.Add(1)
				}
				if _, err := s.Put(context.Background(), base.Name, []byte{byte(w)}, objstore.Condition{IfMatch: base.ETag}); err == nil {
					swaps.Add(1)
				}
			})
		}
		wg.Wait()
		if wins.Load() != 1 || swaps.Load() != 1 {
			t.Fatalf("round %d: %d creators and %d swappers won", round, wins.Load(), swaps.Load())
		}
	}
}

func all(t *testing.T, s objstore.Reader, prefix string) []string {
	t.Helper()
	var out []string
	for info, err := range s.List(t.Context(), prefix) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, info.Name)
	}
	return out
}

func listInOrder(t *testing.T, s objstore.Store) {
	want := []string{"a", "b-1/x", "b.txt", "b/1", "b/10", "b/2", "b/c/d/e", "b0", "c/é"}
	for _, n := range []string{"b/2", "b/c/d/e", "a", "b.txt", "b0", "b/10", "b-1/x", "c/é", "b/1"} {
		put(t, s, n, n)
	}
	for _, prefix := range []string{"", "b", "b/", "b/1", "b/c", "b/c/d/", "zz", "b-", "../x/", "c/"} {
		var expect []string
		for _, n := range want {
			if strings.HasPrefix(n, prefix) {
				expect = append(expect, n)
			}
		}
		if got := all(t, s, prefix); !slices.Equal(got, expect) {
			t.Errorf("List(%q) = %q, want %q", prefix, got, expect)
		}
	}
	for range s.List(t.Context(), "") {
		break // stopping early must not panic
	}
}

func names(t *testing.T, s objstore.Store) {
	for _, bad := range []string{"", "/a", "a/", "a//b", ".", "..", "a/../b", "../a", "a/.", "a\x00b", `a\b`, strings.Repeat("x", 2000)} {
		_, err := s.Put(t.Context(), bad, nil, objstore.Condition{})
		wantKind(t, err, errs.Invalid)
		_, err = s.Open(t.Context(), bad)
		wantKind(t, err, errs.Invalid)
		_, err = s.Create(t.Context(), bad, objstore.Condition{})
		wantKind(t, err, errs.Invalid)
		wantKind(t, s.Delete(t.Context(), bad), errs.Invalid)
	}
	for _, good := range []string{"a b", "ü/世界", "x=1/y=%2F", "...", "a..b", "[x]*?", strings.Repeat("n", 200)} {
		put(t, s, good, good)
		if get(t, s, good) != good {
			t.Errorf("%q does not read back", good)
		}
	}
}

func streams(t *testing.T, s objstore.Store) {
	ctx := t.Context()
	w, err := s.Create(ctx, "big/one", objstore.Condition{})
	if err != nil {
		t.Fatal(err)
	}
	part := bytes.Repeat([]byte("0123456789"), 10_000)
	for range 5 {
		if _, err := w.Write(part); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(all(t, s, "")); n != 0 {
		t.Errorf("%d objects before Commit", n)
	}
	info, err := w.Commit(ctx)
	if err != nil || info.Size != 500_000 {
		t.Fatalf("commit %+v, %v", info, err)
	}
	w, err = s.Create(ctx, "big/two", objstore.Condition{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(part); err != nil {
		t.Fatal(err)
	}
	if err := w.Abort(); err != nil {
		t.Fatal(err)
	}
	if got := all(t, s, ""); !slices.Equal(got, []string{"big/one"}) {
		t.Errorf("after Abort there are %q", got)
	}
}

func openObjectsStay(t *testing.T, s objstore.Store) {
	put(t, s, "x", "old")
	o, err := s.Open(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	put(t, s, "x", "newer")
	if err := s.Delete(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, o.Size())
	if _, err := o.ReadAt(buf, 0); err != nil && err != io.EOF || string(buf) != "old" {
		t.Errorf("the open object reads %q, %v", buf, err)
	}
}

func cancel(t *testing.T, s objstore.Store) {
	put(t, s, "x", "1")
	ctx, stop := context.WithCancel(t.Context())
	stop()
	_, err := s.Open(ctx, "x")
	wantKind(t, err, errs.Canceled)
	_, err = s.Put(ctx, "x", []byte("2"), objstore.Condition{})
	wantKind(t, err, errs.Canceled)
	for _, err := range s.List(ctx, "") {
		wantKind(t, err, errs.Canceled)
	}
	if get(t, s, "x") != "1" {
		t.Error("a cancelled write wrote")
	}
}
