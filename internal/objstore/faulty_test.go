package objstore_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/objstore"
)

func faulty(t *testing.T, s objstore.Store, script string) *objstore.Faulty {
	t.Helper()
	f, err := objstore.NewFaulty(s, script)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// outcome is the kind of an error, or "ok".
func outcome(err error) string {
	if err == nil {
		return "ok"
	}
	return errs.KindOf(err).String()
}

func TestFaultsChooseTheirOperations(t *testing.T) {
	for script, want := range map[string]string{
		"fail put *.parquet at 2":                         "ok unavailable ok ok",
		"fail put *.parquet from 2":                       "ok unavailable unavailable unavailable",
		"fail put *.parquet from 2 times 2":               "ok unavailable unavailable ok",
		"full put data/x.parquet times 1":                 "exhausted ok ok ok",
		"503 * *\nfail put other":                         "unavailable unavailable unavailable unavailable",
		"deny put x.* from 4 # a comment":                 "ok ok ok denied",
		"fail get-it":                                     "invalid",
		"fail put x.par?uet at 1 \n deny put *":           "unavailable denied denied denied",
		"fail put data/* times 1":                         "unavailable ok ok ok",
		"fail put *.json":                                 "ok ok ok ok",
		"fail delete *\nfail open *\n\n# nothing for put": "ok ok ok ok",
		"unknown put x.parquet from 3 times 1":            "ok ok unavailable ok",
	} {
		f, err := objstore.NewFaulty(objstore.NewMemory("t"), script)
		got := []string{outcome(err)}
		if err == nil {
			got = nil
			for range 4 {
				_, err := f.Put(t.Context(), "data/x.parquet", nil, always)
				got = append(got, outcome(err))
			}
		}
		if g := strings.Join(got, " "); g != want {
			t.Errorf("%q gives %s, want %s", script, g, want)
		}
	}
}

func TestEveryOperationCanFail(t *testing.T) {
	s := objstore.NewMemory("t")
	put(t, s, "x", "0123456789")
	f := faulty(t, s, "")
	ctx := t.Context()
	opened, err := f.Open(ctx, "x")
	if err != nil {
		t.Fatal(err)
	}
	acts := map[string]func() error{
		"open": func() error { _, err := f.Open(ctx, "x"); return err },
		"read": func() error { _, err := opened.ReadAt(make([]byte, 1), 0); return err },
		"stat": func() error { _, err := f.Stat(ctx, "x"); return err },
		"list": func() error {
			for _, err := range f.List(ctx, "x") {
				return err
			}
			return nil
		},
		"put":    func() error { _, err := f.Put(ctx, "x", nil, always); return err },
		"create": func() error { _, err := f.Create(ctx, "x", always); return err },
		"write": func() error {
			w, err := f.Create(ctx, "x", always)
			if err != nil {
				return nil
			}
			_, err = w.Write([]byte("1"))
			if aerr := w.Abort(); aerr != nil {
				t.Error(aerr)
			}
			return err
		},
		"delete": func() error { return f.Delete(ctx, "y") },
	}
	for op := range acts {
		if err := f.Set("full " + op + " *"); err != nil {
			t.Fatal(err)
		}
		for other, act := range acts {
			if err := act(); errs.Is(err, errs.Exhausted) != (op == other) {
				t.Errorf("full %s: %s gives %v", op, other, err)
			}
		}
	}
	// put stands for Commit too, which then leaves nothing.
	if err := f.Set("deny put new"); err != nil {
		t.Fatal(err)
	}
	w, err := f.Create(ctx, "new", always)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Commit(ctx); !errs.Is(err, errs.Denied) {
		t.Errorf("Commit gives %v", err)
	}
	if _, err := s.Stat(ctx, "new"); !errs.Is(err, errs.NotFound) {
		t.Errorf("a denied Commit left %v", err)
	}
}

func TestWhatFaultsLeaveBehind(t *testing.T) {
	stream := func(f *objstore.Faulty, name, data string) error {
		w, err := f.Create(t.Context(), name, always)
		if err != nil {
			return err
		}
		if _, err := io.WriteString(w, data); err != nil {
			return err
		}
		_, err = w.Commit(t.Context())
		return err
	}
	whole := func(f *objstore.Faulty, name, data string) error {
		_, err := f.Put(t.Context(), name, []byte(data), always)
		return err
	}
	for how, write := range map[string]func(*objstore.Faulty, string, string) error{"put": whole, "stream": stream} {
		for script, want := range map[string]string{
			"fail put *":    "nothing",
			"full put *":    "nothing",
			"unknown put *": "0123456789",
			"tear put *":    "01234",
		} {
			m := objstore.NewMemory("t")
			err := write(faulty(t, m, script), "x", "0123456789")
			if err == nil {
				t.Errorf("%s, %s: acknowledged", script, how)
			}
			got := "nothing"
			if data, _, err := objstore.ReadAll(t.Context(), m, "x", 100); err == nil {
				got = string(data)
			}
			if got != want {
				t.Errorf("%s, %s leaves %q, want %q", script, how, got, want)
			}
		}
	}
	m := objstore.NewMemory("t")
	put(t, m, "x", "")
	if err := faulty(t, m, "unknown delete *").Delete(t.Context(), "x"); !errs.Is(err, errs.Unavailable) || len(names(t, m)) != 0 {
		t.Errorf("a delete whose answer is lost gives %v and leaves %q", err, names(t, m))
	}
}

func TestDamagedReads(t *testing.T) {
	m := objstore.NewMemory("t")
	put(t, m, "x", "0123456789")
	read := func(script string) (string, error) {
		o, err := faulty(t, m, script).Open(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 4)
		n, err := o.ReadAt(buf, 2)
		return string(buf[:n]), err
	}
	if got, err := read("flip read *"); got != "2355" || err != nil {
		t.Errorf("flip gives %q, %v", got, err)
	}
	if got, err := read("tear read *"); got != "23" || !errs.Is(err, errs.Unavailable) {
		t.Errorf("tear gives %q, %v", got, err)
	}
}

func TestDelaysEndWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := objstore.NewMemory("t")
		put(t, m, "x", "1")
		f := faulty(t, m, "delay=1h * *")
		start := time.Now()
		if _, err := f.Stat(t.Context(), "x"); err != nil || time.Since(start) != time.Hour {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		if _, err := f.Stat(ctx, "x"); !errs.Is(err, errs.Canceled) || time.Since(start) != time.Hour+time.Minute {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		o, err := f.Open(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		start = time.Now()
		ctx, stop = context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if _, err := objstore.ReadAt(ctx, o, make([]byte, 1), 0); !errs.Is(err, errs.Canceled) || time.Since(start) != time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
}

func TestMistakesInScripts(t *testing.T) {
	f := faulty(t, objstore.NewMemory("t"), "fail put *")
	for _, bad := range []string{
		"explode put *", "fail juggle *", "fail put", "fail", "fail put * from", "fail put * from x", "fail put * from 0",
		"fail put * times -1", "fail put * since 3", "fail put [", "delay put *", "delay=z put *", "delay=-1s put *",
		"tear delete *", "tear * *", "flip put *", "unknown read *", "fail put *\nfail put", "FAIL put *",
	} {
		if err := f.Set(bad); !errs.Is(err, errs.Invalid) {
			t.Errorf("%q gives %v", bad, err)
		}
	}
	if err := f.Set("fail put *\n\nfail put"); err == nil || !strings.Contains(err.Error(), "line 3") {
		t.Errorf("the mistake is in line 3: %v", err)
	}
	if _, err := f.Put(t.Context(), "x", nil, always); !errs.Is(err, errs.Unavailable) {
		t.Error("a bad script replaced the good one")
	}
}

func FuzzFaultScript(f *testing.F) {
	for _, s := range []string{"fail put *.parquet from 2 times 1 # x", "delay=10ms read [a-z]", "at at at", "tear read *\nflip read x at 3", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, script string) {
		if strings.Contains(script, "delay") {
			return
		}
		s, err := objstore.NewFaulty(objstore.NewMemory("t"), script)
		if err != nil {
			if !errs.Is(err, errs.Invalid) {
				t.Errorf("%q gives %v", script, err)
			}
			return
		}
		_, _ = s.Put(t.Context(), "a/b", []byte("123"), always)
		_, _, _ = objstore.ReadAll(t.Context(), s, "a/b", 10)
	})
}
