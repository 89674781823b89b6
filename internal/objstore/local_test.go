package objstore_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/objstore"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the expected texts in testdata")

// TestStepsOfTheLocalStore compares what each operation does in the file system, in order, with testdata/steps.txt: the
// order of writes, fsyncs and renames is the promise.
func TestStepsOfTheLocalStore(t *testing.T) {
	const file = "testdata/steps.txt"
	golden, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := openDir(t, t.TempDir(), objstore.LocalOptions{})
	var steps []string
	objstore.Trace(s, func(step string) { steps = append(steps, step) })
	var got strings.Builder
	for line := range strings.Lines(string(golden)) {
		if strings.HasPrefix(line, "#") {
			got.WriteString(line)
		}
		command, ok := strings.CutPrefix(line, "> ")
		if !ok {
			continue
		}
		steps = nil
		err := runCommand(t, s, strings.TrimSpace(command))
		fmt.Fprintf(&got, "\n> %s", command)
		for _, step := range steps {
			fmt.Fprintf(&got, "%s\n", step)
		}
		if err != nil {
			fmt.Fprintf(&got, "= %v\n", errs.KindOf(err))
		}
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(got.String()), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got.String() != string(golden) {
		t.Errorf("the steps are\n%s\n%s has others; -rewrite accepts them", got.String(), file)
	}
}

// runCommand does what a line of steps.txt says.
func runCommand(t *testing.T, s objstore.Store, command string) error {
	t.Helper()
	act, name, _ := strings.Cut(command, " ")
	cond := always
	if n, ok := strings.CutSuffix(name, " if absent"); ok {
		name, cond.IfAbsent = n, true
	}
	if n, ok := strings.CutSuffix(name, " if unchanged"); ok {
		info, err := s.Stat(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		name, cond.IfMatch = n, info.ETag
	}
	if n, ok := strings.CutSuffix(name, " if it were another"); ok {
		name, cond.IfMatch = n, "another"
	}
	switch act {
	case "put":
		_, err := s.Put(t.Context(), name, []byte("1"), cond)
		return err
	case "stream":
		w, err := s.Create(t.Context(), name, cond)
		if err != nil {
			return err
		}
		for range 2 {
			if _, err := w.Write([]byte("1")); err != nil {
				return errors.Join(err, w.Abort())
			}
		}
		_, err = w.Commit(t.Context())
		return err
	case "abort":
		w, err := s.Create(t.Context(), name, cond)
		if err != nil {
			return err
		}
		return w.Abort()
	case "delete":
		return s.Delete(t.Context(), name)
	case "future":
		path, _ := s.(objstore.LocalPather).LocalPath(name)
		later := time.Now().Add(time.Hour)
		return os.Chtimes(path, later, later)
	}
	t.Fatalf("unknown command %q", command)
	return nil
}

// TestClockThatWasAhead replaces a version whose time lies in the future: the new one must be later still.
func TestClockThatWasAhead(t *testing.T) {
	s := openLocal(t)
	put(t, s, "a", "1")
	path, _ := s.(objstore.LocalPather).LocalPath("a")
	future := time.Now().Add(24 * time.Hour)
	if err := os.Chtimes(path, future, future); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		before, err := s.Stat(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if after := put(t, s, "a", "2"); !after.ModTime.After(before.ModTime) {
			t.Errorf("%v follows %v", after.ModTime, before.ModTime)
		}
	}
}

func TestSymbolicLinks(t *testing.T) {
	s := openLocal(t)
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	put(t, s, "in/side", "inside")
	local := s.(objstore.LocalPather)
	link := func(target, name string) {
		path, ok := local.LocalPath(name)
		if !ok {
			t.Fatalf("no path for %s", name)
		}
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
	}
	link(outside, "out")
	link(filepath.Join(outside, "secret"), "leak")
	link(filepath.Join(outside, "not-there"), "dangling")
	link("../../..", "in/up")
	link("side", "in/alias")
	link("in", "dir")
	link("loop", "loop")
	for _, name := range []string{"out/secret", "leak", "in/up/etc/passwd", "dangling"} {
		_, err := s.Open(t.Context(), name)
		wantKindAndHint(t, err, errs.Denied)
		_, err = s.Stat(t.Context(), name)
		wantKindAndHint(t, err, errs.Denied)
		if path, ok := local.LocalPath(name); ok {
			t.Errorf("%s has the local path %s", name, path)
		}
	}
	_, err := s.Stat(t.Context(), "loop")
	wantKindAndHint(t, err, errs.Denied)
	for _, name := range []string{"out/new", "in/up/new"} {
		_, err := s.Put(t.Context(), name, nil, always)
		wantKindAndHint(t, err, errs.Denied)
		_, err = s.Put(t.Context(), name, nil, objstore.Condition{IfAbsent: true})
		wantKindAndHint(t, err, errs.Denied)
	}
	wantKindAndHint(t, s.Delete(t.Context(), "out/secret"), errs.Denied)
	// Links that stay inside are followed; listings do not go through those to directories, so nothing comes twice.
	for _, name := range []string{"in/alias", "dir/side"} {
		data, _, err := objstore.ReadAll(t.Context(), s, name, 100)
		if err != nil || string(data) != "inside" {
			t.Errorf("%s reads %q, %v", name, data, err)
		}
	}
	if got := names(t, s); !slices.Equal(got, []string{"in/alias", "in/side"}) {
		t.Errorf("listed are %q", got)
	}
	for range s.List(t.Context(), "dir/") {
		t.Error("a listing went through a link")
	}
	// Replacing and deleting mean the link, not what it leads to.
	put(t, s, "leak", "mine")
	if err := s.Delete(t.Context(), "out"); err != nil {
		t.Error(err)
	}
	if data, err := os.ReadFile(filepath.Join(outside, "secret")); err != nil || string(data) != "x" {
		t.Errorf("the file outside is %q, %v", data, err)
	}
	// An emptied directory is removed, but not through a link.
	link("in/deep", "deep")
	put(t, s, "in/deep/x", "")
	if err := s.Delete(t.Context(), "deep/x"); err != nil {
		t.Error(err)
	}
	if path, _ := local.LocalPath("in/side"); path != "" {
		if _, err := os.Lstat(filepath.Join(filepath.Dir(filepath.Dir(path)), "deep")); err != nil {
			t.Error("a link was removed as an empty directory")
		}
	}
}

func TestOtherFilesAreNoObjects(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir, objstore.LocalOptions{NoSync: true})
	put(t, s, "a/x", "")
	for _, path := range []string{"empty/dir", "a/.overlake/tmp", `a/back\slash`} {
		if err := os.MkdirAll(filepath.Join(dir, path), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{".overlake/tmp/0123456789abcdef", "a/.overlake/tmp/x", `a/back\slash/x`, "a/b\xff"} {
		if err := os.WriteFile(filepath.Join(dir, path), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(dir, "pipe"), 0o666); err != nil {
		t.Fatal(err)
	}
	if got := names(t, s); !slices.Equal(got, []string{"a/x"}) {
		t.Errorf("listed are %q", got)
	}
	for _, name := range []string{"pipe", "empty", "empty/dir"} {
		if _, err := s.Open(t.Context(), name); !errs.Is(err, errs.NotFound) {
			t.Errorf("opening %s gave %v", name, err)
		}
	}
	_, err := s.Put(t.Context(), strings.Repeat("n", 300), nil, always)
	wantKindAndHint(t, err, errs.Invalid)
}

func TestEmptyDirectoriesGo(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir, objstore.LocalOptions{NoSync: true})
	put(t, s, "a/b/c/d", "")
	put(t, s, "a/x", "")
	if err := s.Delete(t.Context(), "a/b/c/d"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "a/b")); !os.IsNotExist(err) {
		t.Errorf("an empty directory stays: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "a")); err != nil {
		t.Error(err)
	}
}

func TestReadOnlyHasNoWriter(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir, objstore.LocalOptions{NoSync: true})
	put(t, s, "a", "1")
	m := objstore.NewMemory("m")
	put(t, m, "a", "1")
	plain, err := objstore.OpenLocalReadOnly(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []objstore.Reader{objstore.ReadOnly(s), objstore.ReadOnly(m), plain, objstore.ReadOnly(plain)} {
		o, err := r.Open(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		defer o.Close()
		for _, v := range []any{r, o} {
			_, isStore := v.(objstore.Store)
			_, puts := v.(interface {
				Put(context.Context, string, []byte, objstore.Condition) (objstore.Info, error)
			})
			_, creates := v.(interface {
				Create(context.Context, string, objstore.Condition) (objstore.Writer, error)
			})
			_, deletes := v.(interface {
				Delete(context.Context, string) error
			})
			_, sweeps := v.(objstore.Sweeper)
			_, writes := v.(interface{ Write([]byte) (int, error) })
			_, writesAt := v.(interface {
				WriteAt([]byte, int64) (int, error)
			})
			_, truncates := v.(interface{ Truncate(int64) error })
			_, chmods := v.(interface{ Chmod(os.FileMode) error })
			_, resets := v.(interface{ Reset([]byte) })
			if isStore || puts || creates || deletes || sweeps || writes || writesAt || truncates || chmods || resets {
				t.Errorf("%T can write", v)
			}
		}
		if r.Location() == "" {
			t.Error("no location")
		}
		if _, ok := r.(objstore.LocalPather); ok == strings.HasPrefix(r.Location(), "mem:") {
			t.Errorf("%s: local path %v", r.Location(), ok)
		}
		if _, err := r.Stat(t.Context(), "a"); err != nil || len(names(t, r)) != 1 {
			t.Errorf("the reading half does not read: %v", err)
		}
	}
	if _, err := objstore.OpenLocalReadOnly(filepath.Join(t.TempDir(), "none")); !errs.Is(err, errs.NotFound) {
		t.Errorf("a missing directory gave %v", err)
	}
	// Reading, also a directory that was only ever read, leaves no trace.
	fresh := t.TempDir()
	r, err := objstore.OpenLocalReadOnly(fresh)
	if err != nil {
		t.Fatal(err)
	}
	names(t, r)
	w := openDir(t, fresh, objstore.LocalOptions{})
	names(t, w)
	if err := w.Delete(t.Context(), "nothing"); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(fresh); err != nil || len(entries) != 0 {
		t.Errorf("reading left %v, %v", entries, err)
	}
}

func TestOpenLocal(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a/b/c")
	s := openDir(t, dir, objstore.LocalOptions{})
	if s.Location() != "file://"+dir {
		t.Errorf("the location is %s", s.Location())
	}
	put(t, s, "x", "")
	path, ok := s.(objstore.LocalPather).LocalPath("x")
	if !ok || path != filepath.Join(dir, "x") {
		t.Errorf("the local path is %s", path)
	}
	_, err := objstore.OpenLocal(path, objstore.LocalOptions{})
	if !errs.Is(err, errs.Invalid) {
		t.Errorf("a file as warehouse gave %v", err)
	}
	_, err = objstore.OpenLocal(dir, objstore.LocalOptions{Quota: -1})
	if !errs.Is(err, errs.Invalid) {
		t.Errorf("a negative quota gave %v", err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	_, err = s.Put(t.Context(), "y", nil, always)
	wantKindAndHint(t, err, errs.Unavailable)
}

func TestReadOnlyDirectoryIsDeniedWithAHint(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("the superuser may write anywhere; TestReadOnlyFileSystem does the same for it")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "old"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Chmod(dir, 0o700); err != nil { // so that it can be removed
			t.Error(err)
		}
	})
	refusesToWrite(t, dir)
}

func refusesToWrite(t *testing.T, dir string) {
	t.Helper()
	s := openDir(t, dir, objstore.LocalOptions{})
	for _, cond := range []objstore.Condition{{}, {IfAbsent: true}, {IfMatch: "x"}} {
		_, err := s.Put(t.Context(), "a", nil, cond)
		wantKindAndHint(t, err, errs.Denied)
	}
	wantKindAndHint(t, s.Delete(t.Context(), "old"), errs.Denied)
	if got := names(t, s); !slices.Equal(got, []string{"old"}) {
		t.Errorf("it lists %q", got)
	}
}

// mount gives a test a small file system of its own, or skips it.
func mount(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("mounting needs the superuser: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestReadOnlyFileSystem(t *testing.T) {
	dir := mount(t, "size=1m")
	if err := os.WriteFile(filepath.Join(dir, "old"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Skip(err)
	}
	refusesToWrite(t, dir)
}

func TestFullDisk(t *testing.T) {
	s := openDir(t, mount(t, "size=1m"), objstore.LocalOptions{})
	put(t, s, "a", strings.Repeat("x", 300_000))
	for range 3 {
		_, err := s.Put(t.Context(), "b", make([]byte, 1_000_000), always)
		wantKindAndHint(t, err, errs.Exhausted)
	}
	// Nothing of the failures stays, so what fits still fits.
	put(t, s, "c", strings.Repeat("x", 600_000))
	if got := names(t, s); !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("it lists %q", got)
	}
	if err := s.Delete(t.Context(), "c"); err != nil {
		t.Errorf("a full disk cannot be freed: %v", err)
	}
}

func TestMountInsideIsUnsupported(t *testing.T) {
	outer := mount(t, "size=1m")
	s := openDir(t, outer, objstore.LocalOptions{})
	inner := filepath.Join(outer, "inner")
	if err := os.Mkdir(inner, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", inner, "tmpfs", 0, "size=1m"); err != nil {
		t.Skip(err)
	}
	defer func() {
		if err := unix.Unmount(inner, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	for _, cond := range []objstore.Condition{{}, {IfAbsent: true}} {
		_, err := s.Put(t.Context(), "inner/x", nil, cond)
		wantKindAndHint(t, err, errs.Unsupported)
	}
	if len(names(t, s)) != 0 {
		t.Error("a refused write left an object")
	}
}

func TestErrorsOfTheFileSystem(t *testing.T) {
	for _, c := range []struct {
		err  error
		want errs.Kind
		hint bool
	}{
		{unix.ENOENT, errs.NotFound, false}, {unix.ENOTDIR, errs.NotFound, false}, {unix.EEXIST, errs.Exists, false},
		{unix.EACCES, errs.Denied, true}, {unix.EPERM, errs.Denied, true}, {unix.EROFS, errs.Denied, true},
		{unix.ENOSPC, errs.Exhausted, true}, {unix.EDQUOT, errs.Exhausted, true}, {unix.EFBIG, errs.Exhausted, true},
		{unix.EMFILE, errs.Exhausted, true}, {unix.ENAMETOOLONG, errs.Invalid, true}, {unix.EXDEV, errs.Unsupported, true},
		{unix.ENOLCK, errs.Unsupported, true}, {unix.EIO, errs.Unavailable, false}, {unix.ESTALE, errs.Unavailable, false},
		{context.Canceled, errs.Canceled, false},
	} {
		err := objstore.LocalError("objstore.test", "x", &os.PathError{Op: "test", Path: "x", Err: c.err})
		if !errs.Is(err, c.want) || (errs.HintOf(err) != "") != c.hint {
			t.Errorf("%v becomes %q with the hint %q", c.err, errs.KindOf(err), errs.HintOf(err))
		}
	}
	if objstore.LocalError("objstore.test", "x", nil) != nil {
		t.Error("nil does not stay nil")
	}
}

func TestLinkNoReplace(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	for i := range 2 {
		if err := os.WriteFile(from, []byte{byte(i)}, 0o666); err != nil {
			t.Fatal(err)
		}
		if err := objstore.LinkNoReplace(from, to); (err == nil) != (i == 0) || i == 1 && !errors.Is(err, unix.EEXIST) {
			t.Errorf("round %d: %v", i, err)
		}
		if data, err := os.ReadFile(to); err != nil || data[0] != 0 {
			t.Errorf("round %d: the file is %v, %v", i, data, err)
		}
		if _, err := os.Stat(from); os.IsNotExist(err) != (i == 0) {
			t.Errorf("round %d: the first name: %v", i, err)
		}
	}
}

// BenchmarkPut measures small durable writes.
func BenchmarkPut(b *testing.B) {
	for name, opts := range map[string]objstore.LocalOptions{"sync": {}, "nosync": {NoSync: true}} {
		for cond, c := range map[string]objstore.Condition{"absent": {IfAbsent: true}, "replace": {}} {
			b.Run(name+"/"+cond, func(b *testing.B) {
				s := openDir(b, b.TempDir(), opts)
				data := make([]byte, 1000)
				i := 0
				for b.Loop() {
					name := "d/x"
					if c.IfAbsent {
						name = fmt.Sprintf("d/x%d", i)
						i++
					}
					if _, err := s.Put(b.Context(), name, data, c); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
