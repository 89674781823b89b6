package worker

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/overlakedb/overlake/internal/index/vector/section"
	"github.com/overlakedb/overlake/internal/vec"
)

// Contender is one index of ours. It is used by one goroutine.
type Contender interface {
	// Build indexes the rows.
	Build(d Data, w Words) (Size, error)
	// Search writes the numbers of the k nearest rows, the nearest first, over out, which holds -1s. allowed may be nil.
	Search(query []float32, k int, effort Effort, allowed *Allowed, out []int32) error
	// Effort reads the words of a search that are the contender's own.
	Effort(w Words) (Effort, error)
}

// Size is what an index takes when it is stored.
type Size struct {
	Artifact int64 // all of it
	Floats   int64 // the part that is only there to measure the best again
}

// Effort is what a contender made of the words of a search.
type Effort any

// Allowed is a set of rows.
type Allowed struct {
	Bits  []uint64 // one bit a row, the lowest bit of a word first
	Count int
}

// Data is what is indexed.
type Data struct {
	Dim    int
	Metric vec.Metric
	Rows   []float32 // mapped: not to be written
	Dir    string    // a folder for files
}

// CPU is the processor time of this process, with its collections of garbage.
func CPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // it fails only for wrong arguments
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

type server struct {
	open    func(kind string) (Contender, error)
	data    Data
	it      Contender
	size    Size
	allowed map[string]*Allowed
	queries map[string][]float32
}

// Serve answers lines until there are no more. open makes a contender of the kind that a build names.
func Serve(in io.Reader, out io.Writer, about string, open func(kind string) (Contender, error)) error {
	s := &server{open: open, allowed: map[string]*Allowed{}, queries: map[string][]float32{}}
	w := bufio.NewWriter(out)
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		verb, words := Parse(lines.Text())
		said, payload, err := s.answer(verb, words, about)
		if err != nil {
			fmt.Fprintf(w, "error %s\n", strings.ReplaceAll(err.Error(), "\n", " "))
		} else {
			fmt.Fprintf(w, "ok %s bytes=%d\n", said, len(payload))
			w.Write(payload)
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return lines.Err()
}

func (s *server) answer(verb string, w Words, about string) (said string, payload []byte, err error) {
	switch verb {
	case "about":
		return about, nil, nil
	case "data":
		return "", nil, s.load(w)
	case "build":
		if s.it, err = s.open(w["kind"]); err != nil {
			return "", nil, err
		}
		from := CPU()
		s.size, err = s.it.Build(s.data, w)
		return fmt.Sprintf("cpu=%.6f", (CPU() - from).Seconds()), nil, err
	case "size":
		return fmt.Sprintf("artifact=%d floats=%d", s.size.Artifact, s.size.Floats), nil, nil
	case "search":
		return s.search(w)
	}
	return "", nil, fmt.Errorf("unknown verb %q", verb)
}

func (s *server) load(w Words) (err error) {
	if s.data.Dim, err = w.Int("dim", 0); err != nil {
		return err
	}
	for _, m := range []vec.Metric{vec.MetricL2, vec.MetricDot, vec.MetricCosine} {
		if m.String() == w["metric"] {
			s.data.Metric = m
		}
	}
	if s.data.Metric.String() != w["metric"] || s.data.Dim < 1 {
		return fmt.Errorf("metric %q of %d dimensions", w["metric"], s.data.Dim)
	}
	s.data.Dir = w["dir"]
	s.data.Rows, err = mapped[float32](w["base"])
	return err
}

func (s *server) search(w Words) (string, []byte, error) {
	if s.it == nil {
		return "", nil, errors.New("nothing is built")
	}
	count, err := w.Int("count", 0)
	if err != nil {
		return "", nil, err
	}
	k, err := w.Int("k", 0)
	if err != nil {
		return "", nil, err
	}
	queries := s.queries[w["queries"]]
	if queries == nil {
		if queries, err = mapped[float32](w["queries"]); err != nil {
			return "", nil, err
		}
		s.queries[w["queries"]] = queries
	}
	dim := s.data.Dim
	if count*dim > len(queries) {
		return "", nil, fmt.Errorf("%d queries asked for, %d are there", count, len(queries)/dim)
	}
	allowed, err := s.filter(w["allowed"])
	if err != nil {
		return "", nil, err
	}
	effort, err := s.it.Effort(w)
	if err != nil {
		return "", nil, err
	}
	out := make([]int32, count*k)
	for i := range out {
		out[i] = -1
	}
	_, empty := w["empty"]
	from := CPU()
	for i := range count {
		if empty {
			continue
		}
		if err := s.it.Search(queries[i*dim:(i+1)*dim], k, effort, allowed, out[i*k:(i+1)*k]); err != nil {
			return "", nil, err
		}
	}
	took := CPU() - from
	payload, err := binary.Append(nil, binary.LittleEndian, out)
	return fmt.Sprintf("cpu=%.6f", took.Seconds()), payload, err
}

func (s *server) filter(path string) (*Allowed, error) {
	if a, ok := s.allowed[path]; ok || path == "" {
		return a, nil
	}
	bits, err := mapped[uint64](path)
	if err != nil {
		return nil, err
	}
	a := &Allowed{Bits: bits}
	for _, w := range bits {
		for ; w != 0; w &= w - 1 {
			a.Count++
		}
	}
	s.allowed[path] = a
	return a, nil
}

// mapped takes a file for numbers, in the memory of the file.
func mapped[T section.Number](path string) ([]T, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if st.Size() == 0 {
		return nil, fmt.Errorf("%s is empty", path)
	}
	b, err := syscall.Mmap(int(f.Fd()), 0, int(st.Size()), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	return section.View[T](b)
}
