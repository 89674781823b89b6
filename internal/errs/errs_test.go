package errs_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/overlakedb/overlake/internal/errs"
)

func TestKindOf(t *testing.T) {
	base := errs.New(errs.Corrupt, "puffin.open", "bad magic", errs.On("a.puffin"), errs.Hint("rebuild %s", "it"))
	for _, c := range []struct {
		err  error
		want errs.Kind
	}{
		{base, errs.Corrupt},
		{fmt.Errorf("outer: %w", base), errs.Corrupt},
		{errs.Wrap(errs.Unavailable, "x", base), errs.Unavailable},
		{errs.Wrap(errs.Unavailable, "x", context.Canceled), errs.Canceled},
		{context.DeadlineExceeded, errs.Canceled},
		{fs.ErrNotExist, errs.NotFound},
		{fs.ErrExist, errs.Exists},
		{fs.ErrPermission, errs.Denied},
		{errors.New("plain"), errs.Internal},
	} {
		if got := errs.KindOf(c.err); got != c.want {
			t.Errorf("KindOf(%v) = %v, want %v", c.err, got, c.want)
		}
	}
	if got := errs.HintOf(fmt.Errorf("outer: %w", errs.Wrap(errs.Invalid, "y", base))); got != "rebuild it" {
		t.Errorf("HintOf = %q", got)
	}
	if got := base.Error(); got != "a.puffin: bad magic" {
		t.Errorf("Error() = %q", got)
	}
}

func TestWrapAndWithKeepNil(t *testing.T) {
	if errs.Wrap(errs.Invalid, "x", nil) != nil || errs.With(nil, errs.On("y")) != nil {
		t.Error("a nil cause must stay nil")
	}
	e := errs.With(errs.New(errs.Exists, "a", "b"), errs.On("t"), errs.Hint("h"))
	if errs.KindOf(e) != errs.Exists || errs.HintOf(e) != "h" || e.Error() != "t: b" {
		t.Errorf("With lost a field: %#v", e)
	}
}

func TestEveryKindHasAName(t *testing.T) {
	for k := errs.Internal; k <= errs.Canceled; k++ {
		if k.String() == "" || k.String()[0] == 'k' {
			t.Errorf("kind %d has no name", k)
		}
	}
}

func TestNearest(t *testing.T) {
	names := []string{"people", "docs", "dogs", "événement"}
	for _, c := range []struct {
		word string
		most int
		want string
	}{
		{"peple", 2, "people"}, {"docs", 0, "docs"}, {"docx", 1, "docs"}, {"doxs", 2, "docs"}, {"dog", 1, "dogs"},
		{"dcos", 1, ""}, {"dcos", 2, "docs"}, {"xyz", 2, ""}, {"", 3, ""}, {"", 4, "docs"}, {"evenement", 4, "événement"},
	} {
		if got := errs.Nearest(c.word, names, c.most); got != c.want {
			t.Errorf("the nearest to %q within %d is %q, want %q", c.word, c.most, got, c.want)
		}
	}
	if got := errs.Nearest("a", nil, 9); got != "" {
		t.Errorf("of no names the nearest is %q", got)
	}
}
