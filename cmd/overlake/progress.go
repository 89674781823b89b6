package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/overlakedb/overlake"
)

// bar shows how far long work is, on a terminal only.
type bar struct {
	p     *program
	what  string
	unit  string
	live  bool
	start time.Time
	last  time.Time
}

func (p *program) progress(what, unit string) *bar {
	return &bar{p: p, what: what, unit: unit, live: p.watched(), start: time.Now()}
}

// watched tells whether a terminal shows stderr.
func (p *program) watched() bool {
	f, ok := p.stderr.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// at draws the state, at most ten times a second; total 0 means unknown.
func (b *bar) at(done, total int64) {
	if !b.live || time.Since(b.last) < 100*time.Millisecond {
		return
	}
	b.last = time.Now()
	b.p.errors.Lock()
	defer b.p.errors.Unlock()
	rate := float64(done) / time.Since(b.start).Seconds()
	if total > 0 {
		const width = 30
		full := int(width * min(done, total) / total)
		fmt.Fprintf(b.p.stderr, "\r\033[K%s [%s%s] %d of %d %s", b.what, strings.Repeat("█", full), strings.Repeat("░", width-full), done, total, b.unit)
		return
	}
	fmt.Fprintf(b.p.stderr, "\r\033[K%s: %d %s, %.0f a second", b.what, done, b.unit, rate)
}

// build draws the state of an index build.
func (b *bar) build(x overlake.IndexProgress) {
	if x.Vectors > 0 {
		b.unit = fmt.Sprintf("vectors in the index, %d of %d files", x.FilesDone, x.Files)
		b.at(x.VectorsDone, x.Vectors)
		return
	}
	b.unit = fmt.Sprintf("rows, %d of %d files", x.FilesDone, x.Files)
	b.at(x.RowsDone, x.Rows)
}

func (b *bar) end() {
	if b.live {
		b.p.errors.Lock()
		defer b.p.errors.Unlock()
		fmt.Fprint(b.p.stderr, "\r\033[K")
	}
}

func sizeText(n int64) string {
	for _, u := range []struct {
		name string
		n    int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= u.n {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(u.n), u.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}

// parseBytes reads 512MiB, 2GiB, 1000000.
func parseBytes(s string) (int64, error) {
	t := strings.ToLower(strings.TrimSpace(s))
	unit := int64(1)
	for _, u := range []struct {
		suffix string
		n      int64
	}{{"gib", 1 << 30}, {"mib", 1 << 20}, {"kib", 1 << 10}, {"gb", 1e9}, {"mb", 1e6}, {"kb", 1e3}, {"g", 1 << 30}, {"m", 1 << 20}, {"k", 1 << 10}, {"b", 1}} {
		if strings.HasSuffix(t, u.suffix) {
			t, unit = strings.TrimSpace(strings.TrimSuffix(t, u.suffix)), u.n
			break
		}
	}
	n, err := strconv.ParseFloat(t, 64)
	if err != nil || n <= 0 || n*float64(unit) > 1<<60 {
		return 0, overlakeError(overlake.KindInvalid, fmt.Errorf("%q is no amount of memory", s), "write it like 512MiB or 2GiB")
	}
	return int64(n * float64(unit)), nil
}
