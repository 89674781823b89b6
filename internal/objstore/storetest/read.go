package storetest

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/objstore"
)

func readsWhatWasWritten(t *testing.T, s objstore.Store) {
	if u := s.Location(); !strings.Contains(u, "://") || strings.HasSuffix(u, "/") {
		t.Errorf("the location is %q", u)
	}
	info := put(t, s, "a/b/c.txt", "hello")
	if info.Name != "a/b/c.txt" || info.Size != 5 || info.ETag == "" || info.ModTime.IsZero() {
		t.Errorf("the info is %+v", info)
	}
	if got := get(t, s, "a/b/c.txt"); got != "hello" {
		t.Errorf("it reads %q", got)
	}
	for _, absent := range []string{"nothing", "a", "a/b", "a/b/c", "a/b/c.txt/d", "b/c.txt"} {
		_, err := s.Open(t.Context(), absent)
		wantKind(t, err, errs.NotFound)
		_, err = s.Stat(t.Context(), absent)
		wantKind(t, err, errs.NotFound)
		_, _, err = objstore.ReadAll(t.Context(), s, absent, 10)
		wantKind(t, err, errs.NotFound)
	}
	put(t, s, "a/b/c.txt", "")
	if get(t, s, "a/b/c.txt") != "" {
		t.Error("an empty object is not empty")
	}
	put(t, s, "a/b/c.txt", "once more")
	if got := get(t, s, "a/b/c.txt"); got != "once more" {
		t.Errorf("replaced, it reads %q", got)
	}
	_, _, err := objstore.ReadAll(t.Context(), s, "a/b/c.txt", 8)
	wantKind(t, err, errs.Exhausted)
}

// gets is for stores that read parts of objects without opening them, also through what wraps them.
func gets(t *testing.T, s objstore.Store) {
	if _, ok := s.(objstore.Getter); !ok {
		return
	}
	text := letters(10_000)
	info := put(t, s, "x", text)
	for what, r := range map[string]objstore.Reader{"the store": s, "its reading half": objstore.ReadOnly(s)} {
		g, ok := r.(objstore.Getter)
		if !ok {
			t.Fatalf("%s gets nothing", what)
		}
		for _, c := range [][2]int64{{0, 1}, {0, 10_000}, {0, 1 << 40}, {9_999, 1}, {9_999, 2}, {10_000, 1}, {10_001, 5}, {500, 0}, {1 << 62, 1 << 62}} {
			data, found, err := g.Get(t.Context(), "x", c[0], c[1])
			from := min(c[0], 10_000)
			if want := text[from : from+min(c[1], 10_000-from)]; err != nil || string(data) != want || found.Size != info.Size || found.ETag != info.ETag {
				t.Errorf("%s: %d bytes at %d are %d bytes of %+v, %v; want %d", what, c[1], c[0], len(data), found, err, len(want))
			}
			clear(data) // it is the caller's
		}
		for _, c := range [][2]int64{{-1, 1}, {0, -1}} {
			_, _, err := g.Get(t.Context(), "x", c[0], c[1])
			wantKind(t, err, errs.Invalid)
		}
		_, _, err := g.Get(t.Context(), "y", 0, 1)
		wantKind(t, err, errs.NotFound)
	}
}

func rangedReads(t *testing.T, s objstore.Store) {
	text := letters(100_000)
	put(t, s, "x", text)
	o, err := s.Open(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if o.Size() != int64(len(text)) {
		t.Fatalf("Size = %d", o.Size())
	}
	check := func(off, n int) error {
		buf := make([]byte, n)
		got, err := o.ReadAt(buf, int64(off))
		want := ""
		if off < len(text) {
			want = text[off:min(off+n, len(text))]
		}
		switch {
		case string(buf[:got]) != want:
			return fmt.Errorf("ReadAt(%d bytes at %d) gives %d bytes, want %d or their content differs", n, off, got, len(want))
		case got < n && err != io.EOF:
			return fmt.Errorf("ReadAt(%d bytes at %d) is short with %v; io.EOF says so", n, off, err)
		case got == n && err != nil && err != io.EOF:
			return fmt.Errorf("ReadAt(%d bytes at %d): %v", n, off, err)
		}
		return nil
	}
	for _, r := range [][2]int{{0, 1}, {0, 100_000}, {0, 100_001}, {99_999, 1}, {99_999, 2}, {100_000, 1}, {100_001, 5}, {500, 0}, {4095, 4098}, {65_535, 3}} {
		if err := check(r[0], r[1]); err != nil {
			t.Error(err)
		}
	}
	if n, err := o.ReadAt(make([]byte, 1), -1); n != 0 || !errs.Is(err, errs.Invalid) {
		t.Errorf("a negative offset gives %d, %v", n, err)
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 50 {
				if err := check((g*7919+i*104_729)%100_000, 1+(g+i)*37); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func names(t *testing.T, s objstore.Store) {
	for _, bad := range []string{"", "/a", "a/", "a//b", ".", "..", "a/../b", "../a", "a/.", "./a", "a\x00b", `a\b`, "a\xff",
		".overlake", ".overlake/lock", "a/.overlake/b", strings.Repeat("x", 2000)} {
		_, err := s.Put(t.Context(), bad, nil, always)
		wantKind(t, err, errs.Invalid)
		_, err = s.Open(t.Context(), bad)
		wantKind(t, err, errs.Invalid)
		_, err = s.Stat(t.Context(), bad)
		wantKind(t, err, errs.Invalid)
		_, err = s.Create(t.Context(), bad, always)
		wantKind(t, err, errs.Invalid)
		wantKind(t, s.Delete(t.Context(), bad), errs.Invalid)
	}
	wantNames(t, s)
	good := []string{"a b", "ü/世界", "x=1/y=%2F", "...", "a..b", "[x]*?", ".hidden", "_a/_b", "a\tb", ".overlake-x", "..a/b", "~", "-rf", strings.Repeat("n", 200)}
	for _, n := range good {
		put(t, s, n, n)
		if get(t, s, n) != n {
			t.Errorf("%q does not read back", n)
		}
	}
	slices.Sort(good)
	wantNames(t, s, good...)
}

func namesThatContinueNames(t *testing.T, s objstore.Store) {
	put(t, s, "a/b", "short")
	kept := []string{"a/b"}
	if _, err := s.Put(t.Context(), "a/b/c", nil, always); err == nil {
		kept = append(kept, "a/b/c")
	} else {
		wantKind(t, err, errs.Invalid)
	}
	wantNames(t, s, kept...)
	put(t, s, "d/e/f", "long")
	kept = append(kept, "d/e/f")
	for _, cond := range []objstore.Condition{{IfAbsent: true}, {}} {
		if _, err := s.Put(t.Context(), "d/e", nil, cond); err == nil {
			kept = append(kept, "d/e")
		} else {
			wantKind(t, err, errs.Invalid)
		}
	}
	slices.Sort(kept)
	kept = slices.Compact(kept)
	wantNames(t, s, kept...)
	// Once the longer name is gone the shorter is free, and the other way round.
	for _, n := range kept {
		if err := s.Delete(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	put(t, s, "d/e", "")
	put(t, s, "a/b/c", "")
	wantNames(t, s, "a/b/c", "d/e")
}

func infosAgree(t *testing.T, s objstore.Store) {
	w := create(t, s, "streamed", always)
	write(t, w, "12345")
	for _, want := range []objstore.Info{put(t, s, "put/a", "123"), commit(t, w), put(t, s, "put/a", "4567")} {
		stat, err := s.Stat(t.Context(), want.Name)
		if err != nil {
			t.Fatal(err)
		}
		o, err := s.Open(t.Context(), want.Name)
		if err != nil {
			t.Fatal(err)
		}
		_, read, err := objstore.ReadAll(t.Context(), s, want.Name, 100)
		if err != nil {
			t.Fatal(err)
		}
		var listed objstore.Info
		for info, err := range s.List(t.Context(), want.Name) {
			if err != nil {
				t.Fatal(err)
			}
			listed = info
		}
		if want.Name == "put/a" && want.Size == 3 {
			if stat.ETag == want.ETag {
				t.Error("a replaced object kept its ETag")
			}
		} else {
			for how, got := range map[string]objstore.Info{"Stat": stat, "List": listed} {
				if got.Name != want.Name || got.Size != want.Size || got.ETag != want.ETag || !got.ModTime.Equal(want.ModTime) {
					t.Errorf("%s says %+v, the write said %+v", how, got, want)
				}
			}
			if o.Size() != want.Size || o.ETag() != want.ETag || read.ETag != want.ETag || read.Size != want.Size {
				t.Errorf("Open says %d %s, the write said %+v", o.Size(), o.ETag(), want)
			}
		}
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	}
}

func listInOrder(t *testing.T, s objstore.Store) {
	want := []string{"a", "b-1/x", "b.txt", "b/1", "b/10", "b/2", "b/c/d/e", "b0", "c/é"}
	for _, n := range []string{"b/2", "b/c/d/e", "a", "b.txt", "b0", "b/10", "b-1/x", "c/é", "b/1"} {
		put(t, s, n, n)
	}
	for _, prefix := range []string{"", "b", "b/", "b/1", "b/c", "b/c/d/", "zz", "b-", "../x/", "c/", "a", "a/", "a/x", "b/1/", "b.txt/y/",
		"/", "//", "b//", "b/../", "c/\xc3", "b/c/d/e", "b/c/d/ee", ".", ".overlake/", "zz/y/"} {
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
	twice := s.List(t.Context(), "b/")
	for range 2 {
		n := 0
		for _, err := range twice {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n != 4 {
			t.Errorf("a listing run again yields %d objects", n)
		}
	}
}

// listAmongChanges lists while other names come and go: what stays is listed exactly once, in order.
func listAmongChanges(t *testing.T, s objstore.Store) {
	var stay []string
	for i := range 20 {
		n := nameOf("d%d/stay-%02d", i%4, i)
		put(t, s, n, "")
		stay = append(stay, n)
	}
	slices.Sort(stay)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			n := nameOf("d%d/come/%d", i%6, i%10)
			if _, err := s.Put(t.Context(), n, nil, always); err != nil {
				t.Error(err)
				return
			}
			if err := s.Delete(t.Context(), nameOf("d%d/come/%d", (i+3)%6, (i+3)%10)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 30 {
		got := all(t, s, "d")
		if !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
			t.Errorf("the listing is out of order or repeats: %q", got)
		}
		got = slices.DeleteFunc(got, func(n string) bool { return strings.Contains(n, "/come/") })
		if !slices.Equal(got, stay) {
			t.Errorf("of the objects that stay %q are listed", got)
		}
	}
	close(done)
	wg.Wait()
}

func openObjectsStay(t *testing.T, s objstore.Store) {
	first := put(t, s, "x", "old")
	o, err := s.Open(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	stays := func(when string) {
		buf := make([]byte, 3)
		if n, err := o.ReadAt(buf, 0); err != nil && err != io.EOF || string(buf[:n]) != "old" || o.Size() != 3 || o.ETag() != first.ETag {
			t.Errorf("%s the open object reads %q, %v", when, buf[:n], err)
		}
	}
	put(t, s, "x", "newer")
	stays("replaced,")
	if err := s.Delete(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	stays("deleted,")
}
