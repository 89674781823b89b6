package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/overlakedb/overlake/bench/cloops"
	"github.com/overlakedb/overlake/bench/vectors/points"
)

// goal is a bound on ours over the peer's; ratios that are good when small have a bound from above.
type goal struct {
	bound float64
	most  bool
}

func (g *goal) String() string {
	switch {
	case g == nil:
		return ""
	case g.most:
		return fmt.Sprintf("<= %.4g", g.bound)
	}
	return fmt.Sprintf(">= %.4g", g.bound)
}

func least(x float64) *goal { return &goal{bound: x} }
func most(x float64) *goal  { return &goal{bound: x, most: true} }

// goals of a family: of 128 dimensions first, of 768 second. Other dimensions take the nearer one's.
type goals struct{ speed, build, bytes [2]*goal }

var families = map[string]goals{
	graphF32: {speed: [2]*goal{least(1.4), least(1.15)}, build: [2]*goal{most(0.85), most(0.85)}},
	graphTQ8: {speed: [2]*goal{least(1.9), least(2.2)}, build: [2]*goal{nil, most(0.6)}, bytes: [2]*goal{most(0.42), most(0.29)}},
	graphTQ4: {speed: [2]*goal{least(2.0), least(2.4)}, bytes: [2]*goal{most(0.33), most(0.17)}},
	inverted: {speed: [2]*goal{least(2.5), least(3.0)}, build: [2]*goal{most(0.2), most(0.2)}},
}

// memoryLimits are the most that a build over a million rows of 128 dimensions may have in memory, in MiB, rows included.
var memoryLimits = map[string]float64{graphF32: 4096, inverted: 2048}

var targets = []float64{0.90, 0.95, 0.99}

// search measures all contenders over each list of queries.
func (w *workshop) search(ctx context.Context) {
	if w.set.Len() >= large {
		w.b.results.leave("LanceDB, usearch bf16 and hnsw_tq8 by codes alone: their builds would take longer than all others together")
	}
	if w.set.Dim > wide && w.set.Len() >= 10_000 && w.set.Len() < large {
		w.b.results.leave("LanceDB IVF_PQ: its training would take longer than all others together")
	}
	entrants := w.enter(contenders(w.set))
	for i, q := range w.set.Queries {
		if ctx.Err() != nil {
			return
		}
		file, err := w.file(fmt.Sprintf("queries%d", i), q.Rows)
		if err != nil {
			w.b.say("%v", err)
			return
		}
		n := len(q.Rows) / w.set.Dim
		w.b.say("%d queries %s", n, q.Name)
		entrants = slices.DeleteFunc(entrants, func(e *entrant) bool { return w.failed[e.name] })
		points := w.measure(entrants, asked{list: q.Name, file: file, count: n, truth: w.set.Truth(q.Rows, k, nil), enough: enough})
		w.compare(q.Name, points, i == 0)
	}
}

// made says whether a set is one of those that the goals are about.
func made(s *points.Set) bool { return s.Clusters != nil }

// isOf says whether a contender is one of a family: a name of its own, or the first words of one.
func isOf(name, family string) bool {
	return name == family || strings.HasPrefix(name, family+" ")
}

// class picks the goal for a number of dimensions.
func class(dim int) int {
	if dim <= 384 {
		return 0
	}
	return 1
}

// compare writes what the points say: rates at equal recall, recall at equal pools, and what the builds took.
func (w *workshop) compare(list string, points []point, first bool) {
	r, c := w.b.results, class(w.set.Dim)
	where := w.set.Name
	if list != "" {
		where += ", " + list
	}
	judged := made(w.set) && list == ""
	best := func(family string, target float64) (name string, rate float64) {
		name = family
		for n := range w.entrants {
			if q, _ := at(of(points, n), target); isOf(n, family) && q > rate {
				name, rate = n, q
			}
		}
		return name, rate
	}
	for _, family := range []string{graphF32, graphTQ8, graphTQ4, inverted} {
		entered := false
		for name := range w.entrants {
			entered = entered || isOf(name, family)
		}
		if !entered {
			continue
		}
		for _, target := range targets {
			name, rate := best(family, target)
			var speed, beside *goal
			if judged && target >= 0.95 {
				speed, beside = families[family].speed[c], least(1.2)
			}
			title := fmt.Sprintf("%s: %s, queries at recall %.2f", where, name, target)
			if w.entrants[hnswlib] != nil {
				_, theirs := best(hnswlib, target)
				r.compare(title, rate, hnswlib, theirs, "q/s", speed)
			}
			if peer, theirs := best(fastScan, target); family == inverted && peer != fastScan {
				r.compare(title, rate, peer, theirs, "q/s", beside)
			}
		}
	}
	for _, p := range points {
		if p.Curve == asBuilt {
			r.differ(fmt.Sprintf("%s: %s, recall of the default settings", where, p.Contender), 100*p.Recall, "floor", 95, "%", 0)
		}
	}
	if peer := of(points, hnswlib); len(peer) > 0 {
		for _, family := range []string{graphF32, graphTQ8, graphTQ4} {
			// The worst of the efs that both were asked at and with which hnswlib finds enough to be used.
			worst, found := point{}, false
			var beside point
			for _, p := range of(points, family) {
				at := slices.IndexFunc(peer, func(q point) bool { return q.Level == p.Level })
				if at < 0 || peer[at].Recall < targets[0] || family != graphF32 && p.Curve != "rerank=20" {
					continue
				}
				if !found || p.Recall-peer[at].Recall < worst.Recall-beside.Recall {
					worst, beside, found = p, peer[at], true
				}
			}
			if !found {
				continue
			}
			title := fmt.Sprintf("%s: %s, recall at equal ef, the worst from 0.90 on (ef=%d)", where, family, worst.Level)
			r.differ(title, 100*worst.Recall, hnswlib, 100*beside.Recall, "%", -0.5)
		}
	}
	if first {
		w.compareBuilds(c, judged)
	}
}

// compareBuilds writes processor time and size of the builds.
func (w *workshop) compareBuilds(c int, judged bool) {
	r, n := w.b.results, float64(w.set.Len())
	peer := w.entrants[hnswlib]
	for _, ours := range w.inOrder() {
		if !ours.ours || ours.name == exactScan {
			continue
		}
		family, _, _ := strings.Cut(ours.name, " ")
		var build, bytes *goal
		if judged {
			build, bytes = families[family].build[c], families[family].bytes[c]
		}
		title := w.set.Name + ": " + ours.name + ", "
		if peer != nil {
			r.compare(title+"build", ours.built.CPU, hnswlib, peer.built.CPU, "s", build)
			r.compare(title+"bytes a row", float64(ours.built.Artifact)/n, hnswlib, float64(peer.built.Artifact)/n, "B", nil)
			if ours.built.Floats > 0 {
				r.compare(title+"bytes a row without the floats for the last ranking", float64(ours.built.Artifact-ours.built.Floats)/n, hnswlib, float64(peer.built.Artifact)/n, "B", bytes)
			}
		}
		if limit := memoryLimits[family]; w.set.Len() >= large && limit > 0 {
			r.compare(title+"peak memory of the build", float64(ours.built.Resident)/(1<<20), "limit", limit, "MiB", most(1))
		}
		if peer != nil {
			r.compare(title+"peak memory of the build", float64(ours.built.Resident)/(1<<20), hnswlib, float64(peer.built.Resident)/(1<<20), "MiB", nil)
		}
		if family != inverted {
			continue
		}
		// The quicker of FAISS' builds: that is the harder one to beat.
		var quick *entrant
		for _, e := range w.inOrder() {
			if isOf(e.name, fastScan) && (quick == nil || e.built.CPU < quick.built.CPU) {
				quick = e
			}
		}
		if quick != nil {
			var g *goal
			if judged {
				g = most(0.4)
			}
			r.compare(title+"build", ours.built.CPU, quick.name, quick.built.CPU, "s", g)
		}
	}
}

// inOrder lists the entrants by the order in which they were built.
func (w *workshop) inOrder() []*entrant {
	var out []*entrant
	for _, e := range w.entrants {
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b *entrant) int { return a.turn - b.turn })
	return out
}

// The filters that are measured, and what is asked of ours beside the in-graph filter of hnswlib.
var selectivities = []struct {
	share float64
	goal  *goal
}{{0.5, least(1.2)}, {0.1, least(3)}, {0.03, least(15)}, {0.01, least(100)}, {0.001, least(100)}, {0.0001, least(100)}}

// filters measures filtered searches. Only sets that are large enough for the least selectivity and have clusters take part.
func (w *workshop) filters(ctx context.Context) {
	if !made(w.set) || w.set.Len() > 200_000 || len(w.set.Queries) < 2 {
		return
	}
	var list []*contender
	for _, c := range contenders(w.set) {
		if c.filters {
			list = append(list, c)
		}
	}
	entrants := w.enter(list)
	all := w.set.Queries[0].Rows
	queries, err := w.file("filtered-queries", all)
	if err != nil {
		w.b.say("%v", err)
		return
	}
	for _, correlated := range []bool{false, true} {
		for _, s := range selectivities {
			if ctx.Err() != nil {
				return
			}
			f := w.set.Uncorrelated(s.share, 5)
			if correlated {
				f = w.set.Correlated(s.share, 5)
			}
			name := fmt.Sprintf("%s %g %%", f.Name, 100*s.share)
			w.b.say("filter %s, %d rows", name, len(f.Rows))
			// Where many rows pass, rates are close and recalls have to be exact; where few do, peers take long.
			n := max(10, w.b.queries/10)
			if s.share >= 0.1 {
				n *= 5
			}
			n = min(n, len(all)/w.set.Dim)
			rows := all[:n*w.set.Dim]
			allowed, err := w.file("allowed-"+strings.NewReplacer(" ", "-", "%", "").Replace(name), f.Allowed)
			if err != nil {
				w.b.say("%v", err)
				return
			}
			entrants = slices.DeleteFunc(entrants, func(e *entrant) bool { return w.failed[e.name] })
			points := w.measure(entrants, asked{file: queries, count: n, truth: w.set.Truth(rows, k, &f), filter: name, allowed: allowed, enough: 0.995})
			theirs, _ := at(of(points, hnswlib), 0.99)
			for _, e := range entrants {
				if !e.ours || e.name == exactScan || w.failed[e.name] {
					continue
				}
				rate, _ := at(of(points, e.name), 0.99)
				if w.entrants[hnswlib] != nil {
					w.b.results.compare(fmt.Sprintf("%s: %s, filter %s, queries at recall 0.99", w.set.Name, e.name, name), rate, hnswlib, theirs, "q/s", s.goal)
				}
			}
		}
	}
}

// codes measures what is found by codes alone, when the code of every row is looked at.
func (w *workshop) codes(context.Context) {
	if w.set.Len() > 200_000 {
		return
	}
	n := min(200, w.b.queries, len(w.set.Queries[0].Rows)/w.set.Dim)
	rows := w.set.Queries[0].Rows[:n*w.set.Dim]
	file, err := w.file("code-queries", rows)
	if err != nil {
		w.b.say("%v", err)
		return
	}
	entrants := w.enter(exhaustive(w.set))
	w.b.say("codes alone")
	w.measure(entrants, asked{list: "codes", file: file, count: n, truth: w.set.Truth(rows, k, nil), enough: 2})
}

// kernels measures our kernels beside the loops that a C compiler makes.
func (b *bench) kernels() error {
	b.say("kernels")
	b.results.begin("", "kernels")
	rows := cloops.Compare()
	for _, r := range rows {
		if r.C == 0 || r.Ratio == 0 { // nothing to compare with
			continue
		}
		var g *goal
		at := slices.Index([]int{128, 384, 768, 1536}, r.Dim)
		switch {
		case r.Kernel == "L2 hot" && at >= 0:
			g = least([]float64{1.15, 1.4, 1.5, 1.4}[at])
		case strings.HasSuffix(r.Kernel, "cold") && r.Dim >= 384:
			g = least(1.25)
		case r.Kernel == "DotU8 hot":
			g = least(1)
		}
		b.results.compare(fmt.Sprintf("kernel %s, %d dimensions", r.Kernel, r.Dim), 1e3*r.Ratio/r.C, "C loop", 1e3/r.C, "million rows/s", g)
	}
	b.results.Kernels = rows
	return b.results.write()
}
