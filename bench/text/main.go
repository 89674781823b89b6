// Command text measures the text index of Overlake beside bleve and Tantivy. Every index lives in a worker process of its own
// and holds the same tokens; in one run they are asked in turns, one query after another on one thread, and compared by
// processor time. It also compares what they find.
//
// It writes a list of {case, ours, peer, theirs, unit, ratio, gate} as JSON and a Markdown page.
//
//	make bench-text                                200,000 texts; minutes
//	make bench-text BENCH='-texts 20000 -rounds 3'
package main

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
)

func main() {
	out := flag.String("out", "bench/results/text.json", "file to write")
	cache := flag.String("cache", ".cache/text", "folder of texts and peers; bench/text/install makes it")
	texts := flag.Int("texts", 200_000, "texts to index")
	queries := flag.Int("queries", 300, "queries of a class")
	rounds := flag.Int("rounds", 7, "rounds of each class; the fastest counts")
	seed := flag.Uint64("seed", 1, "seed of the queries")
	only := flag.Bool("alone", false, "ask no peers")
	asWorker := flag.Bool("worker", false, "answer questions on the standard input; worker.go says which")
	flag.Parse()
	var err error
	if *asWorker {
		err = serve(os.Stdin, os.Stdout, (&ours{}).answer)
	} else {
		err = run(*out, *cache, *texts, *queries, *rounds, *seed, *only)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// peer is a contender.
type peer struct {
	name string
	args []string
	p    *process
	made answer
	cpu  map[string]float64 // seconds of the fastest round, by class
}

func run(out, cache string, texts, queries, rounds int, seed uint64, alone bool) (err error) {
	if texts < 1000 || queries < 1 || rounds < 1 {
		return errors.New("at least 1,000 texts, one query and one round")
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp(cache, "run-")
	if err != nil {
		return fmt.Errorf("%w (bench/text/install makes the folder)", err)
	}
	defer os.RemoveAll(folder)
	tokens := filepath.Join(folder, "tokens")
	lines, words, err := tokenize(filepath.Join(cache, "texts"), tokens, texts)
	if err != nil {
		return err
	}
	info, err := os.Stat(tokens)
	if err != nil {
		return err
	}
	cs := classes()
	draw(cs, lines, queries, seed)
	peers := []*peer{
		{name: "ours", args: []string{self, "-worker"}},
		{name: "bleve", args: []string{filepath.Join(cache, "bleve")}},
		{name: "Tantivy", args: []string{filepath.Join(cache, "tantivy")}},
	}
	if alone {
		peers = peers[:1]
	}
	for _, p := range peers {
		if p.p, err = start(p.name, p.args...); err != nil {
			return err
		}
		defer p.p.close()
		p.cpu = map[string]float64{}
		if p.made, err = p.p.ask(question{Op: "build", Texts: tokens, Folder: folder}); err != nil {
			return err
		}
		fmt.Printf("%-8s %-28s %8.2f s to build, %6.1f MB\n", p.name, p.made.Name, p.made.CPU, float64(p.made.Bytes)/1e6)
	}
	r := &results{out: out, texts: len(lines), tokens: words, bytes: info.Size(), queries: queries, rounds: rounds, peers: peers}
	for _, c := range cs {
		if err := compare(r, c, peers); err != nil {
			return err
		}
		for round := range rounds {
			for i := range peers {
				p := peers[(i+round)%len(peers)]
				for _, count := range []bool{false, true} {
					if count && p.name == "bleve" {
						continue // it always counts
					}
					a, err := p.p.ask(question{Op: "ask", Class: c.kind, Queries: c.queries, K: 10, Count: count})
					if err != nil {
						return err
					}
					key := c.name
					if count {
						key += " with exact count"
					}
					if v, ok := p.cpu[key]; !ok || a.CPU < v {
						p.cpu[key] = a.CPU
					}
				}
			}
		}
		fmt.Printf("%-18s", c.name)
		for _, p := range peers {
			fmt.Printf(" %s %.1f us", p.name, p.cpu[c.name]/float64(queries)*1e6)
		}
		for _, p := range peers {
			if v, ok := p.cpu[c.name+" with exact count"]; ok {
				fmt.Printf(" %s counting %.1f us", p.name, v/float64(queries)*1e6)
			}
		}
		fmt.Println()
	}
	r.fill(cs)
	return r.write()
}

// compare compares what is found: counts, and the scores of the best.
func compare(r *results, c *class, peers []*peer) error {
	var first answer
	for i, p := range peers {
		a, err := p.p.ask(question{Op: "ask", Class: c.kind, Queries: c.queries, K: 10, Count: true, Answers: true})
		if err != nil {
			return err
		}
		if i == 0 {
			first = a
			pruned, err := p.p.ask(question{Op: "ask", Class: c.kind, Queries: c.queries, K: 10, Answers: true})
			if err != nil {
				return err
			}
			for n := range a.Hits {
				if !slices.Equal(a.Hits[n], pruned.Hits[n]) || !slices.Equal(a.Scores[n], pruned.Scores[n]) {
					return fmt.Errorf("%s %q: the answer depends on counting", c.name, c.queries[n])
				}
			}
			continue
		}
		counts, scores := 0, 0
		for n := range c.queries {
			if a.Counts[n] != first.Counts[n] {
				counts++
			}
			if !near(a.Scores[n], first.Scores[n]) {
				scores++
			}
		}
		r.differ = append(r.differ, fmt.Sprintf("%s, %s: of %d queries, %d differ in the number of hits and %d in the scores of the ten best by more than one in 10,000", c.name, p.name, len(c.queries), counts, scores))
	}
	return nil
}

func near(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool {
		return math.Abs(float64(x-y)) <= 1e-4*math.Max(math.Abs(float64(x)), math.Abs(float64(y)))
	})
}
