package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/overlakedb/overlake/bench/cloops"
	"github.com/overlakedb/overlake/bench/vectors/points"
	"github.com/overlakedb/overlake/bench/vectors/worker"
)

// place is where in a run something was measured: all that is compared was measured at one place in one run.
type place struct {
	Set     string `json:"set"`
	Section string `json:"section"`
}

// ran says how a place was measured.
type ran struct {
	place
	When    string `json:"when"`
	Queries int    `json:"queries"` // at most
	Rounds  int    `json:"rounds"`
	Load    string `json:"load"`           // of the machine, when it began
	Some    string `json:"only,omitempty"` // the pattern of contenders, where not all took part
}

// left is something that was not measured.
type left struct {
	place
	Why string `json:"why"`
}

// measurement is one line of the result.
type measurement struct {
	place
	Case    string  `json:"case"`
	Ours    float64 `json:"ours"` // 0: never reached
	Peer    string  `json:"peer"`
	Theirs  float64 `json:"theirs"`
	Unit    string  `json:"unit"`
	Ratio   float64 `json:"ratio"` // ours over theirs; in percent, ours less theirs; 0 when one of them is never reached
	Gate    string  `json:"gate"`
	Verdict string  `json:"verdict"` // pass, miss or, without a gate, nothing
}

// built is one line of the table of builds.
type built struct {
	place
	Contender string  `json:"contender"`
	CPU       float64 `json:"cpu_seconds"`
	Row       float64 `json:"bytes_a_row"`
	Floats    float64 `json:"floats_a_row"` // of those, what only the last ranking reads
	Peak      float64 `json:"peak_a_row"`   // bytes allocated at most while it was built
	Held      float64 `json:"held_a_row"`   // and when it was
	Resident  int64   `json:"resident"`     // the most memory of the worker until it was built, the mapped rows included
	Width     float64 `json:"width"`        // threads that wanted to run at once while it was built, on average
}

// results are what is written.
type results struct {
	out     string
	when    time.Time
	queries int
	rounds  int
	some    string // the pattern of contenders
	here    place  // where the run is

	lines []measurement
	rest
}

// rest is what is written beside the lines: all that they were made of.
type rest struct {
	Points  []point                 `json:"points"`
	Builds  []built                 `json:"builds"`
	Left    []left                  `json:"left"`
	Runs    []ran                   `json:"runs"`
	Workers map[string]worker.Words `json:"workers"`
	Kernels []cloops.Row            `json:"kernels"`
}

func newResults(out string, queries, rounds int, some string) *results {
	return &results{out: out, when: time.Now(), queries: queries, rounds: rounds, some: some, lines: []measurement{},
		rest: rest{Points: []point{}, Builds: []built{}, Left: []left{}, Runs: []ran{}, Workers: map[string]worker.Words{}, Kernels: []cloops.Row{}}}
}

// beside is the name of the file for the rest.
func (r *results) beside() string { return strings.TrimSuffix(r.out, ".json") + "-points.json" }

// read takes what an earlier run has written, if it has.
func (r *results) read() error {
	for _, f := range []struct {
		path string
		v    any
	}{{r.out, &r.lines}, {r.beside(), &r.rest}} {
		data, err := os.ReadFile(f.path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil {
			err = json.Unmarshal(data, f.v)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f.path, err)
		}
	}
	return nil
}

// begin goes to a place and drops what an earlier run measured there.
func (r *results) begin(set, section string) {
	r.here = place{set, section}
	r.lines = slices.DeleteFunc(r.lines, func(m measurement) bool { return m.place == r.here })
	r.Points = slices.DeleteFunc(r.Points, func(p point) bool { return p.place == r.here })
	r.Builds = slices.DeleteFunc(r.Builds, func(b built) bool { return b.place == r.here })
	r.Left = slices.DeleteFunc(r.Left, func(l left) bool { return l.place == r.here })
	r.Runs = slices.DeleteFunc(r.Runs, func(x ran) bool { return x.place == r.here })
	r.Runs = append(r.Runs, ran{r.here, r.when.Format(time.DateOnly), r.queries, r.rounds, load(), r.some})
}

// leave says that something is not measured here.
func (r *results) leave(format string, args ...any) {
	r.Left = append(r.Left, left{r.here, fmt.Sprintf(format, args...)})
}

func (r *results) about(program string, w worker.Words) { r.Workers[program] = w }

func (r *results) build(s *points.Set, c *contender, b worker.Built) {
	n := float64(s.Len())
	r.Builds = append(r.Builds, built{place: r.here, Contender: c.name, CPU: b.CPU, Row: float64(b.Artifact) / n, Floats: float64(b.Floats) / n, Peak: float64(b.Peak) / n, Held: float64(b.Held) / n, Resident: b.Resident, Width: b.Width})
}

// compare adds a line whose ratio is ours over theirs. Who never gets to a rate has 0.
func (r *results) compare(title string, ours float64, peer string, theirs float64, unit string, g *goal) {
	m := measurement{Case: title, Ours: ours, Peer: peer, Theirs: theirs, Unit: unit, Gate: g.String()}
	if ours > 0 && theirs > 0 {
		m.Ratio = ours / theirs
	}
	if g != nil {
		m.Verdict = "miss"
		if ours > 0 && (theirs == 0 || !g.most && m.Ratio >= g.bound || g.most && m.Ratio <= g.bound) {
			m.Verdict = "pass"
		}
	}
	m.place = r.here
	r.lines = append(r.lines, m)
}

// differ adds a line about percents: ours may be below theirs by bound points.
func (r *results) differ(title string, ours float64, peer string, theirs float64, unit string, bound float64) {
	m := measurement{Case: title, Ours: ours, Peer: peer, Theirs: theirs, Unit: unit, Ratio: ours - theirs, Gate: fmt.Sprintf(">= %.1f points", bound), Verdict: "miss"}
	if m.Ratio >= bound {
		m.Verdict = "pass"
	}
	m.place = r.here
	r.lines = append(r.lines, m)
}

// write writes all three files.
func (r *results) write() error {
	if err := os.MkdirAll(filepath.Dir(r.out), 0o777); err != nil {
		return err
	}
	for _, f := range []struct {
		path string
		v    any
	}{{r.out, r.lines}, {r.beside(), r.rest}} {
		data, err := json.MarshalIndent(f.v, "", " ")
		if err == nil {
			err = os.WriteFile(f.path, append(data, '\n'), 0o666)
		}
		if err != nil {
			return err
		}
	}
	return os.WriteFile(strings.TrimSuffix(r.out, ".json")+".md", []byte(r.page()), 0o666)
}

// page is the Markdown page.
func (r *results) page() string {
	var md strings.Builder
	fmt.Fprintf(&md, "# Vectors\n\n%s. The 10 nearest, one query after another on one thread; processor time, the fastest of interleaved rounds. "+
		"Graphs have M=%d and ef_construction=%d; all inverted files over a set have the same number of lists. A ratio is ours over the peer's, the gate says which way is good; in percent it is a difference. "+
		"`never` is a recall that no effort measured reached. LanceDB is asked end to end, by its own interface and on threads of its own, all of which count: "+
		"it is a peer only of our tables, which are asked by the interface for programs too. The floats of a row that only the last ranking reads are counted apart, since a table holds them anyway.\n\n", processor(), links, pool)
	md.WriteString("Workers:\n\n")
	for _, name := range slices.Sorted(maps.Keys(r.Workers)) {
		line, _ := r.Workers[name].Line(name) // words came from a line
		fmt.Fprintf(&md, "- %s\n", strings.TrimSpace(line))
	}
	md.WriteString("\nRuns:\n\n| set | section | on | queries | rounds | load | contenders |\n|---|---|---|---:|---:|---:|---|\n")
	for _, x := range r.Runs {
		fmt.Fprintf(&md, "| %s | %s | %s | %d | %d | %s | %s |\n", x.Set, x.Section, x.When, x.Queries, x.Rounds, x.Load, strings.ReplaceAll(x.Some, "|", "\\|"))
	}
	if len(r.Left) > 0 {
		md.WriteString("\nNot measured:\n\n")
		for _, l := range r.Left {
			fmt.Fprintf(&md, "- %s: %s\n", l.Set, l.Why)
		}
	}
	passed, missed := 0, 0
	for _, m := range r.lines {
		switch m.Verdict {
		case "pass":
			passed++
		case "miss":
			missed++
		}
	}
	fmt.Fprintf(&md, "\n## Goals\n\n%d passed, %d missed.\n\n| case | ours | peer | theirs | unit | ratio | gate | |\n|---|---:|---|---:|---|---:|---|---|\n", passed, missed)
	for _, m := range r.lines {
		if m.Gate != "" {
			m.line(&md)
		}
	}
	sets := []string{}
	for _, b := range r.Builds {
		if !slices.Contains(sets, b.Set) {
			sets = append(sets, b.Set)
		}
	}
	for _, set := range sets {
		r.section(&md, set)
	}
	if len(r.Kernels) > 0 {
		fmt.Fprintf(&md, "\n## Kernels\n\n%s", cloops.Table(r.Kernels))
	}
	md.WriteString("\n## Comparisons without a gate\n\n| case | ours | peer | theirs | unit | ratio | gate | |\n|---|---:|---|---:|---|---:|---|---|\n")
	for _, m := range r.lines {
		if m.Gate == "" {
			m.line(&md)
		}
	}
	return md.String()
}

func (m measurement) line(md *strings.Builder) {
	show := func(x float64) string {
		switch {
		case x == 0:
			return "never"
		case x >= 100:
			return fmt.Sprintf("%.0f", x)
		}
		return fmt.Sprintf("%.2f", x)
	}
	ratio := fmt.Sprintf("%.2f", m.Ratio)
	if m.Ratio == 0 && m.Unit != "%" {
		ratio = ""
	}
	fmt.Fprintf(md, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", m.Case, show(m.Ours), m.Peer, show(m.Theirs), m.Unit, ratio, m.Gate, m.Verdict)
}

// section shows what was measured over one set.
func (r *results) section(md *strings.Builder, set string) {
	var lists, filters []string
	for _, p := range r.Points {
		if p.Set != set {
			continue
		}
		if p.Filter == "" && p.Queries != "codes" && !slices.Contains(lists, p.Queries) {
			lists = append(lists, p.Queries)
		}
		if p.Filter != "" && p.Queries == "" && !slices.Contains(filters, p.Filter) {
			filters = append(filters, p.Filter)
		}
	}
	fmt.Fprintf(md, "\n## %s\n", set)
	pick := func(list, filter string) []point {
		var out []point
		for _, p := range r.Points {
			if p.Set == set && p.Queries == list && p.Filter == filter {
				out = append(out, p)
			}
		}
		return out
	}
	for _, list := range lists {
		points := pick(list, "")
		title := "Queries a second on one core"
		if list != "" {
			title += ", " + list + " queries"
		}
		fmt.Fprintf(md, "\n%s; build; bytes a row, of which floats that only the last ranking reads; bytes allocated a row at most while building.\n\n"+
			"| index | at 0.90 | at 0.95 | at 0.99 | best at 0.95 | highest recall | loop taken off, us | build, CPU s | bytes | floats | peak |\n|---|---:|---:|---:|---|---:|---:|---:|---:|---:|---:|\n", title)
		for _, b := range r.Builds {
			mine := of(points, b.Contender)
			if b.Set != set || b.Section != "search" && b.Section != "engine" || len(mine) == 0 {
				continue
			}
			fmt.Fprintf(md, "| %s |", b.Contender)
			best := ""
			for _, t := range targets {
				rate, curve := at(mine, t)
				if t == 0.95 {
					best = curve
				}
				if rate == 0 {
					md.WriteString(" never |")
				} else {
					fmt.Fprintf(md, " %.0f |", rate)
				}
			}
			highest := slices.MaxFunc(mine, func(a, b point) int {
				switch {
				case a.Recall < b.Recall:
					return -1
				case a.Recall > b.Recall:
					return 1
				}
				return 0
			})
			fmt.Fprintf(md, " %s | %.4f | %.1f | %.1f | %.0f | %.0f | %.0f |\n", best, highest.Recall, mine[0].Loop, b.CPU, b.Row, b.Floats, b.Peak)
		}
		r.equal(md, points)
		if list == "tables" {
			r.conditions(md, set)
		}
	}
	if len(filters) > 0 {
		md.WriteString("\nFiltered: queries a second at recall 0.99, and the highest recall.\n\n")
		var names []string
		for _, p := range r.Points {
			if p.Set == set && p.Filter != "" && p.Queries == "" && !slices.Contains(names, p.Contender) {
				names = append(names, p.Contender)
			}
		}
		fmt.Fprintf(md, "| filter | %s |\n|---|%s\n", strings.Join(names, " | "), strings.Repeat("---:|", len(names)))
		for _, f := range filters {
			fmt.Fprintf(md, "| %s |", f)
			points := pick("", f)
			for _, n := range names {
				mine := of(points, n)
				highest, forbidden := 0.0, 0
				for _, p := range mine {
					highest = max(highest, p.Recall)
					forbidden += p.Forbidden
				}
				switch rate, _ := at(mine, 0.99); {
				case forbidden > 0:
					fmt.Fprintf(md, " **%d rows that the filter excludes** |", forbidden)
				case rate == 0:
					fmt.Fprintf(md, " never, %.4f |", highest)
				default:
					fmt.Fprintf(md, " %.0f, %.4f |", rate, highest)
				}
			}
			md.WriteString("\n")
		}
	}
	if codes := pick("codes", ""); len(codes) > 0 {
		md.WriteString("\nThe code of every row and nothing else: recall, and bytes a row.\n\n| code | recall | bytes | us a query |\n|---|---:|---:|---:|\n")
		for _, p := range codes {
			at := slices.IndexFunc(r.Builds, func(b built) bool { return b.Set == set && b.Contender == p.Contender })
			fmt.Fprintf(md, "| %s | %.4f | %.0f | %.0f |\n", p.Contender, p.Recall, r.Builds[at].Row, p.Micros)
		}
	}
}

// conditions shows searches of tables with a condition.
func (r *results) conditions(md *strings.Builder, set string) {
	var names []string
	points := map[string][]point{}
	for _, p := range r.Points {
		if p.Set != set || p.Queries != "tables" || p.Filter == "" {
			continue
		}
		name := p.Contender + " | " + p.Filter
		if points[name] == nil {
			names = append(names, name)
		}
		points[name] = append(points[name], p)
	}
	if len(names) == 0 {
		return
	}
	md.WriteString("\nThe same with a condition: queries a second.\n\n| table | condition | at 0.90 | at 0.95 | at 0.99 | highest recall |\n|---|---|---:|---:|---:|---:|\n")
	for _, name := range names {
		fmt.Fprintf(md, "| %s |", name)
		highest := 0.0
		for _, t := range targets {
			if rate, _ := at(points[name], t); rate > 0 {
				fmt.Fprintf(md, " %.0f |", rate)
			} else {
				md.WriteString(" never |")
			}
		}
		for _, p := range points[name] {
			highest = max(highest, p.Recall)
		}
		fmt.Fprintf(md, " %.4f |\n", highest)
	}
}

// equal shows the recall of graphs at equal pools.
func (r *results) equal(md *strings.Builder, points []point) {
	var names []string
	row := map[string]map[int]float64{}
	for _, p := range points {
		if p.Curve == asBuilt || !strings.HasPrefix(p.Contender, "hnsw") && !strings.Contains(p.Contender, "HNSW16") && !strings.HasPrefix(p.Contender, "usearch") || strings.HasPrefix(p.Contender, "LanceDB") {
			continue
		}
		name := strings.TrimSpace(p.Contender + " " + p.Curve)
		if row[name] == nil {
			names = append(names, name)
			row[name] = map[int]float64{}
		}
		row[name][p.Level] = p.Recall
	}
	if len(names) < 2 {
		return
	}
	md.WriteString("\nRecall at equal ef.\n\n| ef |")
	for _, l := range pools {
		fmt.Fprintf(md, " %d |", l)
	}
	fmt.Fprintf(md, "\n|---|%s\n", strings.Repeat("---:|", len(pools)))
	for _, n := range names {
		fmt.Fprintf(md, "| %s |", n)
		for _, l := range pools {
			if v, ok := row[n][l]; ok {
				fmt.Fprintf(md, " %.4f |", v)
			} else {
				md.WriteString(" |")
			}
		}
		md.WriteString("\n")
	}
}
