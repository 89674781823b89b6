// Command bench measures Overlake beside its peers: bare DuckDB of the same version over the same files, and plain arrow-go
// writing the same Parquet. Both sides run in one process, interleaved, and are compared by process CPU time, the minimum
// of several rounds. It writes a list of {case, ours, peer, theirs, unit, ratio, gate} as JSON and a Markdown table beside
// it; a ratio above 1 means that we are ahead.
//
//	make bench-sql                      10 million rows; -rows 1000000 for a quick look
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/overlakedb/overlake"
)

// measurement is one line of the result.
type measurement struct {
	Case   string  `json:"case"`
	Ours   float64 `json:"ours"`
	Peer   string  `json:"peer"`
	Theirs float64 `json:"theirs"`
	Unit   string  `json:"unit"`
	Ratio  float64 `json:"ratio"`
	Gate   string  `json:"gate"`
}

func main() {
	out := flag.String("out", "bench/results/sql.json", "file to write")
	rows := flag.Int("rows", 10_000_000, "rows of the table")
	rounds := flag.Int("rounds", 3, "rounds of each case; the fastest counts")
	only := flag.String("only", "", "measure only what this pattern of sections matches: aggregates, overhead, deletes, firstRow, append, indexes")
	warehouse := flag.String("warehouse", "", "directory that keeps the tables for the next run; default is a temporary one")
	flag.Parse()
	pattern, err := regexp.Compile(*only)
	if err == nil {
		err = run(context.Background(), *out, *warehouse, *rows, *rounds, pattern)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out, dir string, rows, rounds int, only *regexp.Regexp) (err error) {
	if dir == "" {
		if dir, err = os.MkdirTemp("", "overlake-bench-"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	}
	db, err := overlake.Open(ctx, dir, overlake.Options{Threads: 2})
	if err != nil {
		return err
	}
	defer db.Close()
	b := &bench{ctx: ctx, db: db, rounds: rounds, rows: rows}
	if b.peer, err = openPeer(2); err != nil {
		return err
	}
	defer b.peer.close()
	for _, section := range []struct {
		name string
		run  func() error
	}{{"aggregates", b.aggregates}, {"overhead", b.overhead}, {"deletes", b.deletes}, {"firstRow", b.firstRow}, {"append", b.append}, {"indexes", b.indexes}} {
		if !only.MatchString(section.name) {
			continue
		}
		if err := section.run(); err != nil {
			return err
		}
	}
	return write(out, rows, b.results)
}

type bench struct {
	ctx     context.Context
	db      *overlake.DB
	peer    *peer
	rounds  int
	rows    int
	files   []string // of hits
	keyed   []string // files of keyed
	results []measurement
}

// cpu is the processor time of this process.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func timed(f func() error) (time.Duration, error) {
	start := cpu()
	err := f()
	return cpu() - start, err
}

// Queries so short are run more often, each side as often as the other.
const (
	shortRound  = 20 * time.Millisecond
	shortRounds = 10
)

// versus runs both sides in turns and keeps each side's fastest round.
func (b *bench) versus(ours, theirs func() error) (o, t time.Duration, err error) {
	o, t = math.MaxInt64, math.MaxInt64
	rounds := b.rounds
	for i := 0; i < rounds; i++ {
		if i == b.rounds-1 && o < shortRound { // a collection of garbage is as long as the whole query
			rounds = shortRounds
		}
		for _, side := range []struct {
			f    func() error
			best *time.Duration
		}{{ours, &o}, {theirs, &t}} {
			d, err := timed(side.f)
			if err != nil {
				return 0, 0, err
			}
			*side.best = min(*side.best, d)
		}
	}
	return o, t, nil
}

func (b *bench) add(name string, ours, theirs float64, peer, unit, gate string) {
	m := measurement{Case: name, Ours: ours, Peer: peer, Theirs: theirs, Unit: unit, Ratio: theirs / ours, Gate: gate}
	b.results = append(b.results, m)
	fmt.Printf("%-52s ours %10.2f %-3s %-22s %10.2f  ratio %.2f  gate %s\n", name, ours, unit, peer, theirs, m.Ratio, gate)
}

// drain reads a statement to its end.
func (b *bench) drain(sql string) error {
	rows, err := b.db.SQL(b.ctx, sql)
	if err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	defer rows.Close()
	for rows.Next() {
	}
	return rows.Err()
}

// has tells whether a table is there from an earlier run.
func (b *bench) has(name string) bool {
	_, err := b.db.Table(b.ctx, name)
	return err == nil
}

// list gives the files of a table.
func (b *bench) list(name string, into *[]string) error {
	t, err := b.db.Table(b.ctx, name)
	if err != nil {
		return err
	}
	list, err := t.Files(b.ctx)
	if err != nil {
		return err
	}
	*into = nil
	for _, f := range list {
		*into = append(*into, strings.TrimPrefix(f.Path, "file://"))
	}
	return nil
}

// fill makes a table of eight columns in some files, unless an earlier run did.
func (b *bench) fill(name string, rows, files int) error {
	if b.has(name) {
		return b.list(name, &b.files)
	}
	create := "CREATE TABLE " + name + " (id BIGINT, cat INTEGER, price DOUBLE, qty INTEGER, ts TIMESTAMP, name VARCHAR, flag BOOLEAN, tag VARCHAR)"
	if err := b.drain(create); err != nil {
		return err
	}
	per := rows / files
	for f := range files {
		// The numbers are hashes of the id, so every run has the same rows.
		sql := fmt.Sprintf(`INSERT INTO %s SELECT i, (hash(i) %% 1000)::INTEGER, (hash(i * 7) %% 1000000)::DOUBLE / 100, (hash(i * 3) %% 50)::INTEGER,
			TIMESTAMP '2025-01-01' + to_seconds((hash(i * 11) %% 31536000)::BIGINT), 'name of ' || (hash(i * 13) %% 100000), hash(i) %% 2 = 0, 'tag' || (hash(i * 17) %% 20)
			FROM range(%d, %d) t(i)`, name, f*per, (f+1)*per)
		if err := b.drain(sql); err != nil {
			return err
		}
	}
	return b.list(name, &b.files)
}

func write(out string, rows int, results []measurement) error {
	if err := os.MkdirAll(filepath.Dir(out), 0o777); err != nil {
		return err
	}
	data, err := json.MarshalIndent(results, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(out, append(data, '\n'), 0o666); err != nil {
		return err
	}
	var md strings.Builder
	fmt.Fprintf(&md, "# SQL\n\n%d rows, two threads, process CPU time, the fastest of interleaved rounds. A ratio above 1 means that Overlake is ahead.\n\n", rows)
	md.WriteString("| case | ours | peer | theirs | unit | ratio | gate |\n|---|---:|---|---:|---|---:|---|\n")
	for _, m := range results {
		fmt.Fprintf(&md, "| %s | %.2f | %s | %.2f | %s | %.2f | %s |\n", m.Case, m.Ours, m.Peer, m.Theirs, m.Unit, m.Ratio, m.Gate)
	}
	return os.WriteFile(strings.TrimSuffix(out, ".json")+".md", []byte(md.String()), 0o666)
}
