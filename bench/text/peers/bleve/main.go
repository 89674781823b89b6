// Command bleve answers the questions of bench/text with bleve: how fast is the full text index that Go programs use today?
//
// It is a module of its own, so that bleve never becomes a module of the product. worker.go above says what questions look like.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/analysis/analyzer/custom"
	"github.com/blevesearch/bleve/v2/analysis/tokenizer/whitespace"
	"github.com/blevesearch/bleve/v2/index/scorch"
	"github.com/blevesearch/bleve/v2/index/scorch/mergeplan"
	"github.com/blevesearch/bleve/v2/search/query"
)

type question struct {
	Op      string     `json:"op"`
	Texts   string     `json:"texts"`
	Folder  string     `json:"folder"`
	Class   string     `json:"class"`
	Queries [][]string `json:"queries"`
	K       int        `json:"k"`
	Answers bool       `json:"answers"`
}

type answer struct {
	Error  string      `json:"error,omitempty"`
	Name   string      `json:"name,omitempty"`
	CPU    float64     `json:"cpu"`
	Bytes  int64       `json:"bytes,omitempty"`
	Hits   [][]int     `json:"hits,omitempty"`
	Scores [][]float32 `json:"scores,omitempty"`
	Counts []int64     `json:"counts,omitempty"`
}

func processor() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func main() {
	var index bleve.Index
	r, enc := bufio.NewReaderSize(os.Stdin, 1<<20), json.NewEncoder(os.Stdout)
	for {
		line, err := r.ReadBytes('\n')
		if err == io.EOF {
			return
		}
		var q question
		var a answer
		if err == nil {
			err = json.Unmarshal(line, &q)
		}
		if err == nil && q.Op == "build" {
			index, a, err = build(q)
		} else if err == nil {
			a, err = ask(index, q)
		}
		if err != nil {
			a = answer{Error: err.Error()}
		}
		if err := enc.Encode(a); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func build(q question) (bleve.Index, answer, error) {
	var a answer
	folder := filepath.Join(q.Folder, "bleve")
	if err := os.RemoveAll(folder); err != nil {
		return nil, a, err
	}
	m := bleve.NewIndexMapping()
	if err := m.AddCustomAnalyzer("tokens", map[string]any{"type": custom.Name, "tokenizer": whitespace.Name}); err != nil {
		return nil, a, err
	}
	m.ScoringModel = "bm25"
	doc := bleve.NewDocumentStaticMapping()
	body := bleve.NewTextFieldMapping()
	body.Analyzer, body.Store, body.IncludeInAll, body.DocValues, body.IncludeTermVectors = "tokens", false, false, false, true
	doc.AddFieldMappingsAt("body", body)
	m.DefaultMapping = doc
	texts, err := os.ReadFile(q.Texts)
	if err != nil {
		return nil, a, err
	}
	lines := strings.Split(strings.TrimSuffix(string(texts), "\n"), "\n")
	before := processor()
	index, err := bleve.NewUsing(folder, m, scorch.Name, scorch.Name, nil)
	if err != nil {
		return nil, a, err
	}
	batch := index.NewBatch()
	for i, line := range lines {
		if err := batch.Index(strconv.Itoa(i), map[string]any{"body": line}); err != nil {
			return nil, a, err
		}
		if batch.Size() == 2000 || i == len(lines)-1 {
			if err := index.Batch(batch); err != nil {
				return nil, a, err
			}
			batch = index.NewBatch()
		}
	}
	a.CPU = (processor() - before).Seconds() // without the merge that makes searches fast
	inner, err := index.Advanced()
	if err != nil {
		return nil, a, err
	}
	if err := inner.(*scorch.Scorch).ForceMerge(context.Background(), &mergeplan.SingleSegmentMergePlanOptions); err != nil {
		return nil, a, err
	}
	// What is no longer needed goes in the background.
	size := int64(0)
	for range 60 {
		time.Sleep(500 * time.Millisecond)
		now := int64(0)
		err := filepath.WalkDir(folder, func(_ string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				var i fs.FileInfo
				if i, err = d.Info(); err == nil {
					now += i.Size()
				}
			}
			return err
		})
		if err != nil {
			continue // a file went meanwhile
		}
		if size > 0 && now >= size {
			break
		}
		size = now
	}
	a.Bytes = size
	a.Name = "bleve"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if d.Path == "github.com/blevesearch/bleve/v2" {
				a.Name += " " + d.Version
			}
		}
	}
	return index, a, nil
}

func ask(index bleve.Index, q question) (answer, error) {
	var a answer
	requests := make([]*bleve.SearchRequest, len(q.Queries))
	for i, terms := range q.Queries {
		var all []query.Query
		for _, t := range terms {
			x := bleve.NewTermQuery(t)
			x.SetField("body")
			all = append(all, x)
		}
		var x query.Query
		switch q.Class {
		case "term":
			x = all[0]
		case "or":
			x = bleve.NewDisjunctionQuery(all...)
		case "and":
			x = bleve.NewConjunctionQuery(all...)
		case "phrase":
			x = bleve.NewPhraseQuery(terms, "body")
		default:
			return a, fmt.Errorf("there is no class %q", q.Class)
		}
		requests[i] = bleve.NewSearchRequestOptions(x, q.K, 0, false)
	}
	before := processor()
	for _, r := range requests {
		res, err := index.SearchInContext(context.Background(), r)
		if err != nil {
			return a, err
		}
		if q.Answers {
			rows, scores := make([]int, len(res.Hits)), make([]float32, len(res.Hits))
			for i, h := range res.Hits {
				if rows[i], err = strconv.Atoi(h.ID); err != nil {
					return a, err
				}
				scores[i] = float32(h.Score)
			}
			a.Hits, a.Scores, a.Counts = append(a.Hits, rows), append(a.Scores, scores), append(a.Counts, int64(res.Total))
		}
	}
	a.CPU = (processor() - before).Seconds()
	return a, nil
}
