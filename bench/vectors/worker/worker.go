// Package worker answers: what does another process say to a query, and how much processor time does it take for it?
//
// A worker is a process that holds one index, of ours or of a peer, so that memory and garbage of one do not disturb
// another. It reads a line, a verb and words of the form key=value, and answers with one line: "ok", words, and bytes=N for
// as many bytes that follow, or "error" and a text. It takes the time itself, around its loop over the queries, which it
// answers one by one on one thread.
//
//	about                                          what the worker is: version, simd, ...
//	data base=F dim=N metric=l2|ip|cosine dir=D    rows as little-endian float32 in a file; a folder of its own. few=F names
//	                                               a file of uint64, one bit a row: rows that a table marks in a column
//	build kind=... ...                             cpu= seconds, width= threads that wanted to run at once, on average
//	size                                           artifact= bytes of the index when it is stored, and those among them
//	                                               of floats= that are only there to measure the best again
//	search queries=F count=N k=N [allowed=F] ...   cpu= seconds; N x k row numbers as int32, -1 for none. allowed names a
//	                                               file of uint64, one bit a row. With empty=1 the same loop without
//	                                               a search, so that what the loop itself costs is known. With
//	                                               threads=N as many share the queries: cpu= is of the slowest thread
//
// The peers' sides lie in the folder peers; ours is Serve.
package worker

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Words are the words of a line.
type Words map[string]string

// Line writes a verb and words, in the order of the keys.
func (w Words) Line(verb string) (string, error) {
	var b strings.Builder
	b.WriteString(verb)
	keys := make([]string, 0, len(w))
	for k := range w {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		if strings.ContainsAny(k+w[k], " \t\n") {
			return "", fmt.Errorf("the word %s=%q holds white space", k, w[k])
		}
		fmt.Fprintf(&b, " %s=%s", k, w[k])
	}
	return b.String() + "\n", nil
}

// Parse reads a line.
func Parse(line string) (verb string, w Words) {
	w = Words{}
	for i, f := range strings.Fields(line) {
		if i == 0 {
			verb = f
			continue
		}
		k, v, _ := strings.Cut(f, "=")
		w[k] = v
	}
	return verb, w
}

// Int is a word as a number; one that is absent is fallback.
func (w Words) Int(key string, fallback int) (int, error) {
	v, ok := w[key]
	if !ok {
		return fallback, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		return 0, fmt.Errorf("the word %s=%q is no number", key, v)
	}
	return n, nil
}

// Seconds is a word as a time in seconds.
func (w Words) Seconds(key string) (float64, error) {
	s, err := strconv.ParseFloat(w[key], 64)
	if err != nil {
		return 0, fmt.Errorf("the word %s=%q is no time", key, w[key])
	}
	return s, nil
}

// Process is a running worker. It is for one goroutine.
type Process struct {
	name string
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	said bytes.Buffer // what it wrote to its standard error
}

// Start starts a worker. Environment variables are added to those of this process.
func Start(name string, env []string, argv ...string) (*Process, error) {
	p := &Process{name: name, cmd: exec.Command(argv[0], argv[1:]...)}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stderr = &p.said
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		p.in, err = p.cmd.StdinPipe()
	}
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("worker %s: %w", name, err)
	}
	p.out = bufio.NewReaderSize(out, 1<<16)
	return p, nil
}

// Ask sends a line and waits for the answer.
func (p *Process) Ask(verb string, w Words) (Words, []byte, error) {
	line, err := w.Line(verb)
	if err != nil {
		return nil, nil, err
	}
	fail := func(err error) (Words, []byte, error) {
		return nil, nil, fmt.Errorf("worker %s: %s: %w", p.name, strings.TrimSpace(line), err)
	}
	if _, err := io.WriteString(p.in, line); err != nil {
		return fail(p.ended(err))
	}
	answer, err := p.out.ReadString('\n')
	if err != nil {
		return fail(p.ended(err))
	}
	status, said := Parse(answer)
	if status != "ok" {
		return fail(errors.New(strings.TrimSpace(answer)))
	}
	n, err := said.Int("bytes", 0)
	if err != nil {
		return fail(err)
	}
	payload := make([]byte, n)
	if _, err := io.ReadFull(p.out, payload); err != nil {
		return fail(p.ended(err))
	}
	return said, payload, nil
}

// ended adds what a dead worker has said.
func (p *Process) ended(err error) error {
	p.cmd.Process.Kill()
	p.cmd.Wait()
	last := strings.TrimSpace(p.said.String())
	return fmt.Errorf("%w: it ended: %s", err, last[max(0, len(last)-2000):])
}

// Search asks for the neighbours of count queries; it gives row numbers and the time of the loop in seconds.
func (p *Process) Search(w Words) ([]int32, float64, error) {
	said, payload, err := p.Ask("search", w)
	if err != nil {
		return nil, 0, err
	}
	took, err := said.Seconds("cpu")
	if err != nil {
		return nil, 0, err
	}
	ids := make([]int32, len(payload)/4)
	if _, err := binary.Decode(payload, binary.LittleEndian, ids); err != nil {
		return nil, 0, err
	}
	return ids, took, nil
}

// Built is what a build took.
type Built struct {
	CPU      float64 // seconds
	Width    float64 // threads that wanted to run at once, on average; 0: unknown
	Peak     int64   // the most bytes that the worker had allocated meanwhile, less those before
	Held     int64   // and what was left of them at the end
	Resident int64   // the most memory of the worker until then, mapped files and code included
	Size
}

// Build asks for an index and looks at the worker's memory meanwhile.
func (p *Process) Build(w Words) (Built, error) {
	before, err := p.memory("RssAnon:")
	if err != nil {
		return Built{}, err
	}
	peak, done := before, make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				if now, err := p.memory("RssAnon:"); err == nil {
					peak = max(peak, now)
				}
			}
		}
	})
	said, _, err := p.Ask("build", w)
	close(done)
	watch.Wait()
	if err != nil {
		return Built{}, err
	}
	after, err := p.memory("RssAnon:")
	if err != nil {
		return Built{}, err
	}
	b := Built{Peak: max(peak, after) - before, Held: after - before}
	if b.Resident, err = p.memory("VmHWM:"); err != nil {
		return Built{}, err
	}
	if said["width"] != "" {
		if b.Width, err = said.Seconds("width"); err != nil {
			return Built{}, err
		}
	}
	if b.CPU, err = said.Seconds("cpu"); err != nil {
		return Built{}, err
	}
	if said, _, err = p.Ask("size", nil); err != nil {
		return Built{}, err
	}
	if b.Artifact, err = strconv.ParseInt(said["artifact"], 10, 64); err == nil && said["floats"] != "" {
		b.Floats, err = strconv.ParseInt(said["floats"], 10, 64)
	}
	return b, err
}

// memory is one number that the system tells of the worker: RssAnon is resident memory that is no file's, so that mapped rows
// do not count, VmHWM the most resident memory of all kinds so far.
func (p *Process) memory(name string) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			var kib int64
			_, err := fmt.Sscan(rest, &kib)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("the system does not tell %s of a process", name)
}

// Close ends the worker.
func (p *Process) Close() {
	p.in.Close()
	ended := make(chan struct{})
	go func() {
		p.cmd.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		p.cmd.Process.Kill()
		<-ended
	}
}
