// Command vectors measures the vector indexes of Overlake beside hnswlib, FAISS, usearch and LanceDB. Every index lives in
// a worker process of its own; in one run they are asked in turns, effort by effort, one query after another on one thread,
// and compared by processor time at equal recall. Recall counts the ten nearest rows that an exact scan finds again.
//
// It writes a list of {case, ours, peer, theirs, unit, ratio, gate, verdict} as JSON, a Markdown page and every measured
// point of every curve beside it, after each case, so that a stopped run keeps what it has.
//
//	make bench-vector                           everything; hours
//	make bench-vector BENCH='-quick'            20,000 rows of 128 dimensions; minutes
//	make bench-vector BENCH='-data 100k-768'    one set; with -add, the file keeps those of earlier runs
//	make bench-vector BENCH="-only 'search|codes' -contenders '^hnsw|^ivf' -queries 500 -rounds 3"
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/overlakedb/overlake/bench/vectors/ours"
	"github.com/overlakedb/overlake/bench/vectors/points"
	"github.com/overlakedb/overlake/bench/vectors/worker"
	"github.com/overlakedb/overlake/internal/testenv"
)

// bench is one run.
type bench struct {
	root       string // of the project
	cache      string // for files
	self       string // this program
	peers      string // where the peers are installed
	script     string // the worker of the peers in Python
	queries    int
	rounds     int
	contenders *regexp.Regexp
	results    *results
	began      time.Time
	broken     bool // an index of ours failed
}

func main() {
	out := flag.String("out", "bench/results/vector.json", "file to write")
	quick := flag.Bool("quick", false, "20,000 rows of 128 dimensions only")
	data := flag.String("data", "", "measure only the sets that this pattern matches")
	only := flag.String("only", "", "measure only what this pattern of sections matches: kernels, search, filters, codes, scale, engine")
	contenders := flag.String("contenders", "", "take only the contenders that this pattern matches")
	queries := flag.Int("queries", 1000, "queries of a set; filtered searches ask half of them where many rows pass, else a tenth")
	add := flag.Bool("add", false, "keep what the file has of sets and sections that this run does not measure")
	rounds := flag.Int("rounds", 5, "rounds of each effort; the fastest counts")
	asWorker := flag.Bool("worker", false, "answer questions on the standard input; package worker says which")
	flag.Parse()
	var err error
	if *asWorker {
		err = worker.Serve(os.Stdin, os.Stdout, "version=this simd="+ours.SIMD()+" compiler="+runtime.Version(), ours.Open)
	} else {
		err = run(*out, *add, *quick, *data, *only, *contenders, *queries, *rounds)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(out string, add, quick bool, data, only, contenders string, queries, rounds int) error {
	if queries < 10 || rounds < 1 {
		return fmt.Errorf("%d queries, %d rounds: at least 10 and 1 are needed", queries, rounds)
	}
	b := &bench{queries: queries, rounds: rounds, began: time.Now()}
	var sets, sections *regexp.Regexp
	var err error
	for _, p := range []struct {
		to   **regexp.Regexp
		text string
	}{{&sets, data}, {&sections, only}, {&b.contenders, contenders}} {
		if *p.to, err = regexp.Compile(p.text); err != nil {
			return err
		}
	}
	if b.self, err = os.Executable(); err != nil {
		return err
	}
	if b.root, err = root(); err != nil {
		return err
	}
	b.peers = filepath.Join(b.root, ".cache", "vectors")
	b.script = filepath.Join(b.root, "bench", "vectors", "peers", "peers.py")
	if err := exec.Command(filepath.Join(b.peers, "python", "bin", "python"), "--version").Run(); err != nil {
		return fmt.Errorf("the peers are not installed (bench/vectors/peers/install .cache/vectors does it): %w", err)
	}
	if b.cache, err = os.MkdirTemp(b.peers, "run-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.cache)
	b.results = newResults(out, queries, rounds, contenders)
	if add {
		if err := b.results.read(); err != nil {
			return err
		}
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if sections.MatchString("kernels") && data == "" {
		if err := b.kernels(); err != nil {
			return err
		}
	}
	shared := os.Getenv(testenv.SharedVar)
	if shared == "" {
		shared = filepath.Join(filepath.Dir(b.root), "shared")
	}
	places := points.Places{Examples: filepath.Join(b.root, "examples"), Shared: shared}
	measured := 0
	for _, src := range points.Sources {
		if !sets.MatchString(src.Name) || quick && src.Full || ctx.Err() != nil {
			continue
		}
		s, err := src.Make(places, queries)
		if errors.Is(err, points.ErrAbsent) {
			b.say("left out: %v", err)
			b.results.begin(src.Name, "search")
			b.results.leave("the collection was not there")
			continue
		}
		if err == nil {
			err = b.measure(ctx, s, sections)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", src.Name, err)
		}
		measured++
	}
	if ctx.Err() != nil {
		return errors.New("stopped; what was measured is written")
	}
	if measured == 0 && data != "" {
		return fmt.Errorf("no set matches %q", data)
	}
	if err := b.results.write(); err != nil {
		return err
	}
	if b.broken {
		return errors.New("an index of ours failed; the results say which")
	}
	return nil
}

// measure runs the sections of a set.
func (b *bench) measure(ctx context.Context, s *points.Set, sections *regexp.Regexp) error {
	b.say("== %s: %d rows of %d dimensions, %s", s.Name, s.Len(), s.Dim, s.Metric)
	w, err := b.workshop(s)
	if err != nil {
		return err
	}
	defer w.close()
	for _, section := range []struct {
		name string
		run  func(context.Context)
	}{{"search", w.search}, {"filters", w.filters}, {"codes", w.codes}, {"scale", w.scale}, {"engine", w.engine}} {
		if !sections.MatchString(section.name) || ctx.Err() != nil {
			continue
		}
		b.results.begin(s.Name, section.name)
		section.run(ctx)
		if err := b.results.write(); err != nil {
			return err
		}
	}
	return nil
}

// say tells how far the run is.
func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%6.0fs  %s\n", time.Since(b.began).Seconds(), fmt.Sprintf(format, args...))
}

// root is the folder that holds go.mod.
func root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("no go.mod above the working directory")
		}
		dir = up
	}
}

// processor names the processor of this machine.
func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// load is the load of the machine in the last minute.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}
