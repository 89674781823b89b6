// Package storetest answers: does a store keep the law? The law is the promises O1 to O6 of package objstore, written once
// as a suite that every kind of store runs.
package storetest

import (
	"context"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/objstore"
)

// law is one article: a name and what it checks on an empty store.
type law struct {
	name  string
	check func(*testing.T, objstore.Store)
}

var laws = []law{
	{"ReadsWhatWasWritten", readsWhatWasWritten},
	{"RangedReads", rangedReads},
	{"Gets", gets},
	{"Names", names},
	{"NamesThatContinueNames", namesThatContinueNames},
	{"BuffersStayTheCallers", buffersStayTheCallers},
	{"InfosAgree", infosAgree},
	{"DeletedIsGone", deletedIsGone},
	{"ListInOrder", listInOrder},
	{"ListAmongChanges", listAmongChanges},
	{"Streams", streams},
	{"SpentWriters", spentWriters},
	{"Conditions", conditions},
	{"StreamConditions", streamConditions},
	{"VersionsDiffer", versionsDiffer},
	{"EveryChangeBreaksAMatch", everyChangeBreaksAMatch},
	{"OneWinner", oneWinner},
	{"NoSwapIsLost", noSwapIsLost},
	{"NobodySeesHalf", nobodySeesHalf},
	{"OpenObjectsStay", openObjectsStay},
	{"Cancel", cancel},
}

// Run checks a kind of store; open returns an empty one each time.
func Run(t *testing.T, open func(t *testing.T) objstore.Store) {
	for _, l := range laws {
		t.Run(l.name, func(t *testing.T) { l.check(t, open(t)) })
	}
}

var always = objstore.Condition{}

func put(t *testing.T, s objstore.Store, name, data string) objstore.Info {
	t.Helper()
	info, err := s.Put(t.Context(), name, []byte(data), always)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func get(t *testing.T, s objstore.Reader, name string) string {
	t.Helper()
	data, _, err := objstore.ReadAll(t.Context(), s, name, 1<<24)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func create(t *testing.T, s objstore.Store, name string, cond objstore.Condition) objstore.Writer {
	t.Helper()
	w, err := s.Create(t.Context(), name, cond)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Abort(); err != nil {
			t.Errorf("the last Abort of %s: %v", name, err)
		}
	})
	return w
}

func write(t *testing.T, w io.Writer, data string) {
	t.Helper()
	if n, err := io.WriteString(w, data); err != nil || n != len(data) {
		t.Fatalf("wrote %d of %d bytes: %v", n, len(data), err)
	}
}

func commit(t *testing.T, w objstore.Writer) objstore.Info {
	t.Helper()
	info, err := w.Commit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func wantKind(t *testing.T, err error, kind errs.Kind) {
	t.Helper()
	if !errs.Is(err, kind) {
		t.Errorf("got %v, want an error of the kind %q", err, kind)
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

func wantNames(t *testing.T, s objstore.Reader, want ...string) {
	t.Helper()
	if got := all(t, s, ""); !slices.Equal(got, want) {
		t.Errorf("the store holds %q, want %q", got, want)
	}
}

func cancelled(t *testing.T) context.Context {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	return ctx
}

func cancel(t *testing.T, s objstore.Store) {
	info := put(t, s, "x", "1")
	before := create(t, s, "y", always)
	write(t, before, "half")
	ctx := cancelled(t)
	_, err := s.Open(ctx, "x")
	wantKind(t, err, errs.Canceled)
	_, err = s.Stat(ctx, "x")
	wantKind(t, err, errs.Canceled)
	for _, cond := range []objstore.Condition{{}, {IfMatch: info.ETag}} {
		_, err = s.Put(ctx, "x", []byte("2"), cond)
		wantKind(t, err, errs.Canceled)
	}
	_, err = s.Create(ctx, "x", always)
	wantKind(t, err, errs.Canceled)
	_, err = before.Commit(ctx)
	wantKind(t, err, errs.Canceled)
	wantKind(t, s.Delete(ctx, "x"), errs.Canceled)
	n := 0
	for _, err := range s.List(ctx, "") {
		n++
		wantKind(t, err, errs.Canceled)
	}
	if n != 1 {
		t.Errorf("a cancelled listing yields %d times; the error alone is once", n)
	}

	// The context of Create binds Write.
	ctx, stop := context.WithCancel(t.Context())
	w, err := s.Create(ctx, "z", always)
	if err != nil {
		t.Fatal(err)
	}
	write(t, w, "half")
	stop()
	_, err = w.Write([]byte("more"))
	wantKind(t, err, errs.Canceled)
	if err := w.Abort(); err != nil {
		t.Error(err)
	}

	// The context of Open does not bind reads, but one given to ReadAt does.
	ctx, stop = context.WithCancel(t.Context())
	o, err := s.Open(ctx, "x")
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	stop()
	buf := make([]byte, 1)
	if n, err := o.ReadAt(buf, 0); n != 1 || err != nil && err != io.EOF {
		t.Errorf("after the end of Open's context a read gives %d, %v", n, err)
	}
	_, err = objstore.ReadAt(ctx, o, buf, 0)
	wantKind(t, err, errs.Canceled)

	if get(t, s, "x") != "1" {
		t.Error("a cancelled write wrote")
	}
	wantNames(t, s, "x")
}

// letters is a text of n bytes in which every place differs from its neighbours.
func letters(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('a' + (i+i/26)%26)
	}
	return string(b)
}

func nameOf(format string, args ...any) string { return fmt.Sprintf(format, args...) }
