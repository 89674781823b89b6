package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// A worker is a process that holds one index. It reads a question a line from its standard input and writes an answer a line
// to its standard output, both JSON. The peers' workers speak the same.

// question is a line to a worker.
type question struct {
	Op      string     `json:"op"`      // build, ask
	Texts   string     `json:"texts"`   // build: a file of one text a line, tokens with one space between
	Folder  string     `json:"folder"`  // build: where the index goes
	Class   string     `json:"class"`   // ask: term, or, and, phrase
	Queries [][]string `json:"queries"` // ask: the terms of each
	K       int        `json:"k"`       // ask: hits wanted
	Count   bool       `json:"count"`   // ask: count all hits exactly too
	Answers bool       `json:"answers"` // ask: say what was found
}

// answer is a line from a worker.
type answer struct {
	Error  string      `json:"error,omitempty"`
	Name   string      `json:"name,omitempty"`   // build: with version
	CPU    float64     `json:"cpu"`              // seconds of processor time of all threads
	Bytes  int64       `json:"bytes,omitempty"`  // build: of the index
	Hits   [][]int     `json:"hits,omitempty"`   // ask: rows, best first
	Scores [][]float32 `json:"scores,omitempty"` // ask: their scores
	Counts []int64     `json:"counts,omitempty"` // ask: all hits, where they were counted
}

// process is a worker that runs.
type process struct {
	name string
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
}

func start(name string, args ...string) (*process, error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s does not start: %w", name, err)
	}
	return &process{name: name, cmd: cmd, in: in, out: bufio.NewReaderSize(out, 1<<20)}, nil
}

func (p *process) ask(q question) (answer, error) {
	var a answer
	line, err := json.Marshal(q)
	if err == nil {
		_, err = p.in.Write(append(line, '\n'))
	}
	if err == nil {
		line, err = p.out.ReadBytes('\n')
	}
	if err == nil {
		err = json.Unmarshal(line, &a)
	}
	if err == nil && a.Error != "" {
		err = errors.New(a.Error)
	}
	if err != nil {
		return a, fmt.Errorf("%s: %w", p.name, err)
	}
	return a, nil
}

func (p *process) close() error {
	p.in.Close()
	return p.cmd.Wait()
}

// serve answers questions until there are no more.
func serve(in io.Reader, out io.Writer, f func(question) (answer, error)) error {
	r := bufio.NewReaderSize(in, 1<<20)
	for {
		line, err := r.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		var q question
		var a answer
		if err = json.Unmarshal(line, &q); err == nil {
			a, err = f(q)
		}
		if err != nil {
			a = answer{Error: err.Error()}
		}
		if line, err = json.Marshal(a); err != nil {
			return err
		}
		if _, err := out.Write(append(line, '\n')); err != nil {
			return err
		}
	}
}
