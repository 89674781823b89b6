// Package ours answers: what do the vector indexes of this project say to a worker's questions?
//
// A build writes an artifact to a file, as a build in a table does, and opens it again; searches read what was opened.
package ours

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/overlakedb/overlake/bench/vectors/worker"
	"github.com/overlakedb/overlake/internal/index/vector/section"
	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/code"
	"github.com/overlakedb/overlake/internal/vec/kernel"
)

// Open makes a contender: graph, lists, codes, scan or table.
func Open(kind string) (worker.Contender, error) {
	switch kind {
	case "graph":
		return &graphs{}, nil
	case "lists":
		return &inverted{}, nil
	case "codes":
		return &codes{}, nil
	case "scan":
		return &scan{}, nil
	case "table":
		return &table{}, nil
	}
	return nil, fmt.Errorf("unknown kind %q", kind)
}

// SIMD names the instructions that our kernels use.
func SIMD() string { return strings.ReplaceAll(kernel.Best().String(), " ", "-") }

// seed of what is drawn by lot in builds.
const seed = 7

// kindOf reads the name of a code.
func kindOf(name string) (code.Kind, error) {
	for _, k := range []code.Kind{code.Float32, code.TQ8, code.TQ4, code.Bit1} {
		if k.String() == name {
			return k, nil
		}
	}
	return 0, fmt.Errorf("unknown code %q", name)
}

// addAll gives a builder all rows, as many at a time as the scan of a table does.
func addAll(ctx context.Context, d worker.Data, add func(context.Context, []uint32, []float32) error) error {
	const batch = 4096
	positions := make([]uint32, 0, batch)
	n := len(d.Rows) / d.Dim
	for at := 0; at < n; at += batch {
		positions = positions[:0]
		for i := at; i < min(n, at+batch); i++ {
			positions = append(positions, uint32(i))
		}
		if err := add(ctx, positions, d.Rows[at*d.Dim:(at+len(positions))*d.Dim]); err != nil {
			return err
		}
	}
	return nil
}

// artifact is an index in a file.
type artifact struct {
	file *os.File
	*section.File
}

// ReadAtContext reads the file.
func (a *artifact) ReadAtContext(_ context.Context, p []byte, off int64) (int, error) {
	return a.file.ReadAt(p, off)
}

// store writes an artifact and opens it.
func store(ctx context.Context, dir string, write func(w *section.Writer) error) (*artifact, error) {
	f, err := os.Create(filepath.Join(dir, "artifact"))
	if err != nil {
		return nil, err
	}
	buffered := bufio.NewWriterSize(f, 1<<20)
	w := section.NewWriter(buffered)
	if err := write(w); err != nil {
		return nil, err
	}
	size, err := w.Close()
	if err == nil {
		err = buffered.Flush()
	}
	if err != nil {
		return nil, err
	}
	debug.FreeOSMemory() // of what was built nothing is needed to open it
	a := &artifact{file: f}
	a.File, err = section.Open(ctx, a, size)
	return a, err
}

// best keeps the k least distances, sorted.
type best struct {
	k    int
	rows []uint32
	dist []float32
}

func (b *best) reset(k int) { b.k, b.rows, b.dist = k, b.rows[:0], b.dist[:0] }

func (b *best) add(row uint32, d float32) {
	if len(b.dist) == b.k {
		if !(d < b.dist[b.k-1]) {
			return
		}
		b.rows, b.dist = b.rows[:b.k-1], b.dist[:b.k-1]
	}
	at, _ := slices.BinarySearch(b.dist, d)
	b.rows, b.dist = slices.Insert(b.rows, at, row), slices.Insert(b.dist, at, d)
}

func (b *best) into(out []int32) {
	for i, r := range b.rows {
		out[i] = int32(r)
	}
}

// scan compares the query with every allowed row.
type scan struct {
	data worker.Data
	best best
	ids  []uint32
	from *worker.Allowed // whose rows ids are
	out  [1024]float32
}

func (s *scan) Build(d worker.Data, _ worker.Words) (worker.Size, error) {
	s.data = d
	return worker.Size{Artifact: int64(4 * len(d.Rows))}, nil
}

func (s *scan) Effort(worker.Words) (worker.Effort, error) { return nil, nil }

func (s *scan) Search(q []float32, k int, _ worker.Effort, allowed *worker.Allowed, out []int32) error {
	s.best.reset(k)
	sign := float32(1)
	listed, all := kernel.L2At, kernel.L2
	if s.data.Metric != vec.MetricL2 {
		sign, listed, all = -1, kernel.DotAt, kernel.Dot
	}
	if allowed != nil {
		if s.from != allowed {
			s.from, s.ids = allowed, rowsOf(allowed.Bits)
		}
		for ids := range slices.Chunk(s.ids, len(s.out)) {
			listed(q, s.data.Rows, ids, s.out[:len(ids)])
			for i, id := range ids {
				s.best.add(id, sign*s.out[i])
			}
		}
	} else {
		row := uint32(0)
		for rows := range slices.Chunk(s.data.Rows, len(s.out)*len(q)) {
			n := len(rows) / len(q)
			all(q, rows, s.out[:n])
			for _, d := range s.out[:n] {
				s.best.add(row, sign*d)
				row++
			}
		}
	}
	s.best.into(out)
	return nil
}

func rowsOf(bits []uint64) []uint32 {
	var rows []uint32
	for i, w := range bits {
		for b := uint32(0); w != 0; b, w = b+1, w>>1 {
			if w&1 != 0 {
				rows = append(rows, uint32(64*i)+b)
			}
		}
	}
	return rows
}

// codes compares the query with the packed form of every row, and with nothing else.
type codes struct {
	coder   *code.Coder
	rows    []byte
	factors []code.Factor
	query   code.Query
	best    best
	out     [1024]float32
}

func (c *codes) Build(d worker.Data, w worker.Words) (worker.Size, error) {
	kind, err := kindOf(w["code"])
	if err != nil {
		return worker.Size{}, err
	}
	if c.coder, err = code.New(kind, d.Metric, d.Dim, seed); err != nil {
		return worker.Size{}, err
	}
	n, bytes := len(d.Rows)/d.Dim, c.coder.RowBytes()
	c.rows, c.factors = make([]byte, n*bytes), make([]code.Factor, n)
	rotated := make([]float32, d.Dim)
	for i := range n {
		c.coder.Rotate(rotated, d.Rows[i*d.Dim:(i+1)*d.Dim])
		c.factors[i] = c.coder.Pack(rotated, c.rows[i*bytes:(i+1)*bytes])
	}
	return worker.Size{Artifact: int64(len(c.rows) + 8*n)}, nil
}

func (c *codes) Effort(worker.Words) (worker.Effort, error) { return nil, nil }

func (c *codes) Search(q []float32, k int, _ worker.Effort, allowed *worker.Allowed, out []int32) error {
	if allowed != nil {
		return fmt.Errorf("codes are not searched with a filter")
	}
	c.best.reset(k)
	c.coder.QueryInto(&c.query, q)
	bytes := c.coder.RowBytes()
	for at := 0; at < len(c.factors); at += len(c.out) {
		n := min(len(c.out), len(c.factors)-at)
		c.query.Distances(c.rows[at*bytes:(at+n)*bytes], c.factors[at:at+n], c.out[:n])
		for i, d := range c.out[:n] {
			c.best.add(uint32(at+i), d)
		}
	}
	c.best.into(out)
	return nil
}
