package main

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/overlakedb/overlake/bench/vectors/points"
	"github.com/overlakedb/overlake/bench/vectors/worker"
)

const k = 10 // neighbours that are asked for

// entrant is a contender with its index built over a set.
type entrant struct {
	*contender
	process *worker.Process
	built   worker.Built
	turn    int             // when it was built
	loop    map[int]float64 // seconds of the loop without a search, by the number of queries
}

// workshop is where a set is measured: its files and the workers at it.
type workshop struct {
	b        *bench
	set      *points.Set
	dir      string
	base     string
	few      string // file of the rows that tables mark
	entrants map[string]*entrant
	failed   map[string]bool
}

func (b *bench) workshop(s *points.Set) (*workshop, error) {
	dir, err := os.MkdirTemp(b.cache, "set-")
	if err != nil {
		return nil, err
	}
	w := &workshop{b: b, set: s, dir: dir, entrants: map[string]*entrant{}, failed: map[string]bool{}}
	w.base, err = w.file("base", s.Base)
	return w, err
}

func (w *workshop) close() {
	for _, e := range w.entrants {
		e.process.Close()
	}
	os.RemoveAll(w.dir)
}

// file writes numbers as workers read them.
func (w *workshop) file(name string, numbers any) (string, error) {
	f, err := os.Create(filepath.Join(w.dir, name))
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := binary.Append(nil, binary.LittleEndian, numbers)
	if err == nil {
		_, err = f.Write(data)
	}
	return f.Name(), err
}

// program is how a worker is started.
func (b *bench) program(name string) []string {
	switch name {
	case "overlake":
		return []string{b.self, "-worker"}
	case "hnswlib":
		return []string{filepath.Join(b.peers, "hnswlib")}
	}
	return []string{filepath.Join(b.peers, "python", "bin", "python"), b.script, name}
}

// enter builds those contenders that are not built yet.
func (w *workshop) enter(list []*contender) (out []*entrant) {
	for _, c := range list {
		if !w.b.contenders.MatchString(c.name) || w.failed[c.name] {
			continue
		}
		e := w.entrants[c.name]
		if e == nil {
			var err error
			if e, err = w.build(c); err != nil {
				w.fail(c, err)
				continue
			}
			w.entrants[c.name] = e
		}
		out = append(out, e)
	}
	return out
}

// fail leaves a contender out of the set from now on, says so in the results, and lets the others go on.
func (w *workshop) fail(c *contender, err error) {
	w.b.say("%s: %v", c.name, err)
	w.failed[c.name] = true
	if e := w.entrants[c.name]; e != nil {
		e.process.Close()
		delete(w.entrants, c.name)
	}
	w.b.results.leave("%s: %v", c.name, err)
	w.b.broken = w.b.broken || c.ours
}

func (w *workshop) build(c *contender) (e *entrant, err error) {
	dir := filepath.Join(w.dir, strings.Map(func(r rune) rune {
		if r == ' ' || r == ',' || r == '/' {
			return '-'
		}
		return r
	}, c.name))
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	p, err := worker.Start(c.name, nil, w.b.program(c.program)...)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	about, _, err := p.Ask("about", nil)
	if err != nil {
		return nil, err
	}
	delete(about, "bytes")
	w.b.results.about(c.program, about)
	data := worker.Words{"base": w.base, "dim": fmt.Sprint(w.set.Dim), "metric": w.set.Metric.String(), "dir": dir}
	if c.marks {
		data["few"] = w.few
	}
	if _, _, err := p.Ask("data", data); err != nil {
		return nil, err
	}
	from := time.Now()
	e = &entrant{contender: c, process: p, turn: len(w.entrants), loop: map[int]float64{}}
	if e.built, err = p.Build(c.build); err != nil {
		return nil, err
	}
	w.b.say("%-28s built in %.1f s (%.1f s of processor time), %d bytes a row", c.name, time.Since(from).Seconds(), e.built.CPU, e.built.Artifact/int64(w.set.Len()))
	w.b.results.build(w.set, c, e.built)
	return e, nil
}

// asked is what is asked of all entrants in one measurement.
type asked struct {
	list    string // name of the list of queries
	file    string
	count   int
	truth   *points.Truth
	filter  string // name
	allowed string // file
	enough  float64
}

// trial is an effort of an entrant that is measured again and again.
type trial struct {
	e     *entrant
	words worker.Words
	n     int // queries
	loop  float64
	point point
}

// measure asks all entrants in turns, effort by effort and round by round. The fastest round of an effort counts. A curve
// ends where the recall is enough, or grows no more. Who fails is left out.
func (w *workshop) measure(entrants []*entrant, a asked) []point {
	var runs []*trial
	ended, curves := map[string]bool{}, map[string][]float64{}
	steps := 0
	for _, e := range entrants {
		steps = max(steps, len(e.efforts))
	}
	for i := range steps {
		for _, e := range entrants {
			if i >= len(e.efforts) || w.failed[e.name] || ended[e.name+"/"+e.efforts[i].curve] {
				continue
			}
			r, err := w.first(e, e.efforts[i], a)
			if err != nil {
				w.fail(e.contender, err)
				continue
			}
			runs = append(runs, r)
			name := e.name + "/" + r.point.Curve
			curves[name] = append(curves[name], r.point.Recall)
			ended[name] = over(curves[name], a.enough)
		}
	}
	const long = 2 // seconds; what takes so long is measured twice only
	for round := 1; round < w.b.rounds; round++ {
		for _, r := range runs {
			if w.failed[r.e.name] || round > 1 && r.point.Micros*float64(r.n) > long*1e6 {
				continue
			}
			_, took, err := r.e.process.Search(r.words)
			if err != nil {
				w.fail(r.e.contender, err)
				continue
			}
			r.point.Micros = min(r.point.Micros, r.micros(took))
		}
	}
	var out []point
	for _, r := range runs {
		if !w.failed[r.e.name] {
			out = append(out, r.point)
		}
	}
	w.b.results.Points = append(w.b.results.Points, out...)
	return out
}

// over tells whether a curve of growing efforts ends: its recall is enough, or the last three efforts found no more than
// the one before them.
func over(recalls []float64, enough float64) bool {
	n := len(recalls)
	if recalls[n-1] >= enough {
		return true
	}
	const same = 0.0005
	return n > 3 && slices.Max(recalls[n-3:]) < recalls[n-4]+same
}

// first measures an effort for the first time, its recall too.
func (w *workshop) first(e *entrant, f effort, a asked) (*trial, error) {
	r := &trial{e: e, n: a.count}
	if e.most > 0 {
		r.n = min(r.n, e.most)
	}
	r.words = worker.Words{"queries": a.file, "count": fmt.Sprint(r.n), "k": fmt.Sprint(k)}
	if a.allowed != "" {
		r.words["allowed"] = a.allowed
	}
	for key, v := range f.words {
		r.words[key] = v
	}
	if _, ok := e.loop[r.n]; !ok {
		words := maps.Clone(r.words)
		words["empty"] = "1"
		least := math.Inf(1)
		for range 3 {
			_, took, err := e.process.Search(words)
			if err != nil {
				return nil, err
			}
			least = min(least, took)
		}
		e.loop[r.n] = least
	}
	r.loop = e.loop[r.n]
	ids, took, err := e.process.Search(r.words)
	if err != nil {
		return nil, err
	}
	recall, forbidden := a.truth.First(r.n).Recall(ids, k)
	r.point = point{
		place: w.b.results.here, Queries: a.list, Filter: a.filter, Contender: e.name, Curve: f.curve, Level: f.level,
		Recall: recall, Micros: r.micros(took), Loop: 1e6 * r.loop / float64(r.n), Forbidden: forbidden,
	}
	return r, nil
}

// micros is the time of a query. The loop of a peer, which is Python's, is not the peer's fault and is taken off; a
// tenth of the time is left in any case.
func (r *trial) micros(took float64) float64 {
	return 1e6 * max(took-r.loop, took/10) / float64(r.n)
}
