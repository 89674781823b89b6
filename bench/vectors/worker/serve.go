package worker

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
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

// Preparer is a contender that puts rows somewhere before the build that counts begins.
type Preparer interface {
	Prepare(d Data, w Words) error
}

// Shared is a contender whose Search several goroutines may call at once.
type Shared interface {
	Shared()
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
	Few    *Allowed  // rows that a table marks, for searches with a condition; or nil
	Dir    string    // a folder for files
}

const ofThread = 1 // RUSAGE_THREAD, which package syscall does not name

// CPU is the processor time of this process, with its collections of garbage.
func CPU() time.Duration { return cpuOf(syscall.RUSAGE_SELF) }

func cpuOf(who int) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(who, &u); err != nil {
		panic(err) // it fails only for wrong arguments
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// wanted is for how long each thread of this process ran or waited for a processor, which a loaded machine does not change
// much; empty where the system does not tell.
func wanted() map[string]time.Duration {
	out := map[string]time.Duration{}
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return out
	}
	for _, task := range tasks {
		text, err := os.ReadFile("/proc/self/task/" + task.Name() + "/schedstat")
		var ran, waited int64
		if err == nil {
			_, err = fmt.Sscan(string(text), &ran, &waited)
		}
		if err == nil { // a thread may have ended meanwhile
			out[task.Name()] = time.Duration(ran + waited)
		}
	}
	return out
}

// width is how many threads wanted to run at once, on average since begun; 0 where the system does not tell.
func width(before map[string]time.Duration, begun time.Time) float64 {
	took := time.Since(begun)
	var sum time.Duration
	for thread, now := range wanted() {
		sum += now - before[thread]
	}
	return float64(sum) / float64(max(took, 1))
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
		if p, ok := s.it.(Preparer); ok {
			if err := p.Prepare(s.data, w); err != nil {
				return "", nil, err
			}
		}
		from, wanted, begun := CPU(), wanted(), time.Now()
		s.size, err = s.it.Build(s.data, w)
		return fmt.Sprintf("cpu=%.6f width=%.4f", (CPU() - from).Seconds(), width(wanted, begun)), nil, err
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
	if s.data.Few, err = s.filter(w["few"]); err != nil {
		return err
	}
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
	threads, err := w.Int("threads", 0)
	if err != nil {
		return "", nil, err
	}
	_, empty := w["empty"]
	one := func(i int) error {
		if empty {
			return nil
		}
		return s.it.Search(queries[i*dim:(i+1)*dim], k, effort, allowed, out[i*k:(i+1)*k])
	}
	said := ""
	if threads > 0 {
		slowest, err := s.together(threads, count, one)
		if err != nil {
			return "", nil, err
		}
		said = fmt.Sprintf("cpu=%.6f", slowest.Seconds())
	} else {
		from := CPU()
		for i := range count {
			if err := one(i); err != nil {
				return "", nil, err
			}
		}
		said = fmt.Sprintf("cpu=%.6f", (CPU() - from).Seconds())
	}
	payload, err := binary.Append(nil, binary.LittleEndian, out)
	return said, payload, err
}

// together answers the queries on several threads at once, each its share, and gives the processor time of the thread that
// took the longest.
func (s *server) together(threads, count int, one func(i int) error) (slowest time.Duration, err error) {
	if _, ok := s.it.(Shared); !ok {
		return 0, errors.New("this index is searched by one thread at a time")
	}
	took, failed := make([]time.Duration, threads), make([]error, threads)
	var all sync.WaitGroup
	for t := range threads {
		all.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			from := cpuOf(ofThread)
			for i := t; i < count && failed[t] == nil; i += threads {
				failed[t] = one(i)
			}
			took[t] = cpuOf(ofThread) - from
		})
	}
	all.Wait()
	return slices.Max(took), errors.Join(failed...)
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
