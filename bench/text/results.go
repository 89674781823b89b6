package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
)

// line is one line of the result. A ratio above 1 means that we are ahead.
type line struct {
	Case   string  `json:"case"`
	Ours   float64 `json:"ours"`
	Peer   string  `json:"peer"`
	Theirs float64 `json:"theirs"`
	Unit   string  `json:"unit"`
	Ratio  float64 `json:"ratio"`
	Gate   string  `json:"gate"`
}

// results are what is written.
type results struct {
	out           string
	texts, tokens int
	bytes         int64
	queries       int
	rounds        int
	peers         []*peer
	differ        []string
	lines         []line
}

func (r *results) add(title string, ours float64, p *peer, theirs float64, unit string, bound float64) {
	l := line{Case: title, Ours: ours, Peer: p.made.Name, Theirs: theirs, Unit: unit, Ratio: theirs / ours}
	if bound > 0 {
		l.Gate = fmt.Sprintf(">= %.3g", bound)
	}
	r.lines = append(r.lines, l)
}

// fill makes the lines of what was measured.
func (r *results) fill(cs []*class) {
	mine := r.peers[0]
	for _, p := range r.peers[1:] {
		sum, n := 0.0, 0
		for _, c := range cs {
			bound := 0.0
			if p.name == "bleve" {
				bound = c.bleve
			}
			us := 1e6 / float64(r.queries)
			r.add(c.name, mine.cpu[c.name]*us, p, p.cpu[c.name]*us, "us", bound)
			sum += math.Log(p.cpu[c.name] / mine.cpu[c.name])
			n++
			key := c.name + " with exact count"
			theirs, ok := p.cpu[key]
			if !ok {
				theirs = p.cpu[c.name]
			}
			r.add(key, mine.cpu[key]*us, p, theirs*us, "us", 0)
		}
		build, size := 12.0, 1/0.27
		if p.name == "Tantivy" {
			r.lines = append(r.lines, line{Case: "all classes, geometric mean of ratios", Ours: 1, Peer: p.made.Name, Theirs: math.Exp(sum / float64(n)), Ratio: math.Exp(sum / float64(n)), Gate: ">= 0.7"})
			build, size = 1, 1/1.1
		}
		r.add("build", mine.made.CPU, p, p.made.CPU, "s", build)
		r.add("size", float64(mine.made.Bytes)/1e6, p, float64(p.made.Bytes)/1e6, "MB", size)
	}
}

// write writes both files.
func (r *results) write() error {
	if len(r.peers) < 2 {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(r.out), 0o777); err != nil {
		return err
	}
	data, err := json.MarshalIndent(r.lines, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(r.out, append(data, '\n'), 0o666); err != nil {
		return err
	}
	return os.WriteFile(strings.TrimSuffix(r.out, ".json")+".md", []byte(r.page()), 0o666)
}

func (r *results) page() string {
	var md strings.Builder
	fmt.Fprintf(&md, "# Text\n\n%d short English texts of %d tokens, %.1f MB; %d queries a class, drawn from the texts, the 10 best, one query after another on one thread; "+
		"processor time of all threads, the fastest of %d interleaved rounds. A ratio above 1 means that Overlake is ahead. All have the same tokens, positions, and one segment. "+
		"With exact count, all hits are counted beside; bleve always does so, and the others leave out what cannot be among the ten where they need not count.\n\n", r.texts, r.tokens, float64(r.bytes)/1e6, r.queries, r.rounds)
	md.WriteString("| case | ours | peer | theirs | unit | ratio | gate |\n|---|---:|---|---:|---|---:|---|\n")
	for _, l := range r.lines {
		fmt.Fprintf(&md, "| %s | %.2f | %s | %.2f | %s | %.2f | %s |\n", l.Case, l.Ours, l.Peer, l.Theirs, l.Unit, l.Ratio, l.Gate)
	}
	md.WriteString("\nWhat is found:\n\n")
	for _, d := range r.differ {
		fmt.Fprintf(&md, "- %s\n", d)
	}
	return md.String()
}
