package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/overlakedb/overlake/internal/analysis"
	"github.com/overlakedb/overlake/internal/index/bm25/best"
	"github.com/overlakedb/overlake/internal/index/bm25/segment"
	"github.com/overlakedb/overlake/internal/index/bm25/similarity"
)

// ours is the worker that holds a segment, in memory.
type ours struct {
	r     *segment.Reader
	norms [256]float32
}

// memory is an artifact.
type memory []byte

func (m memory) ReadAtContext(_ context.Context, p []byte, off int64) (int, error) {
	if off < 0 || off > int64(len(m)) {
		return 0, io.EOF
	}
	n := copy(p, m[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// processor is the time that all threads of this process have had.
func processor() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func (o *ours) answer(q question) (answer, error) {
	switch q.Op {
	case "build":
		return o.build(q)
	case "ask":
		return o.ask(q)
	}
	return answer{}, fmt.Errorf("there is no question %q", q.Op)
}

func (o *ours) build(q question) (answer, error) {
	texts, err := os.ReadFile(q.Texts)
	if err != nil {
		return answer{}, err
	}
	a, err := analysis.Find("whitespace")
	if err != nil {
		return answer{}, err
	}
	before := processor()
	b, err := segment.NewBuilder(segment.Options{Fields: []segment.Field{{Analyzer: a.Fingerprint(), Positions: true, Params: similarity.DefaultParams}}, Memory: 1 << 30})
	if err != nil {
		return answer{}, err
	}
	var s analysis.Stream
	rows := int64(0)
	for from := 0; from < len(texts); rows++ {
		to := from
		for to < len(texts) && texts[to] != '\n' {
			to++
		}
		s.Reset(a, string(texts[from:to]))
		if err := b.Add(uint32(rows), 0, &s); err != nil {
			return answer{}, err
		}
		from = to + 1
	}
	path := filepath.Join(q.Folder, "ours")
	f, err := os.Create(path)
	if err != nil {
		return answer{}, err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	st, err := b.Finish(context.Background(), w, rows)
	if err == nil {
		err = w.Flush()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return answer{}, err
	}
	cpu := processor() - before
	data, err := os.ReadFile(path)
	if err != nil {
		return answer{}, err
	}
	if o.r, err = segment.Open(context.Background(), memory(data), int64(len(data)), segment.OpenOptions{Resident: true}); err != nil {
		return answer{}, err
	}
	stats := o.r.Stats(0)
	o.norms = similarity.InverseNorms(similarity.DefaultParams, similarity.AverageLength(stats.Docs, stats.SumTotalTermFreq))
	return answer{Name: "Overlake, " + runtime.Version(), CPU: cpu.Seconds(), Bytes: st.Size}, nil
}

func (o *ours) ask(q question) (answer, error) {
	ctx := context.Background()
	stats := o.r.Stats(0)
	queries := make([][][]byte, len(q.Queries))
	for i, terms := range q.Queries {
		for _, t := range terms {
			queries[i] = append(queries[i], []byte(t))
		}
	}
	norms := []*[256]float32{&o.norms}
	var a answer
	before := processor()
	for _, terms := range queries {
		found, err := o.r.Lookup(ctx, 0, terms)
		if err != nil {
			return answer{}, err
		}
		query := segment.Query{Norms: norms, All: q.Class == "and"}
		if q.Class == "phrase" {
			idf := float32(0)
			for _, t := range found {
				idf += similarity.IDF(stats.Docs, t.DocFreq)
			}
			query.Phrase = &segment.Phrase{Terms: found, Weight: similarity.Weight(similarity.DefaultParams, 1, idf)}
		} else {
			query.Clauses = make([]segment.Clause, len(found))
			for i, t := range found {
				query.Clauses[i] = segment.Clause{Term: t, Weight: similarity.Weight(similarity.DefaultParams, 1, similarity.IDF(stats.Docs, t.DocFreq)), Repeat: 1}
			}
		}
		c := segment.Collector{Top: best.New(q.K)}
		if q.Count {
			c.Track = -1
		}
		if err := o.r.Best(ctx, &query, nil, 0, &c); err != nil {
			return answer{}, err
		}
		hits := c.Top.Hits()
		if q.Answers {
			rows, scores := make([]int, len(hits)), make([]float32, len(hits))
			for i, h := range hits {
				rows[i], scores[i] = int(h.Pos), h.Score
			}
			a.Hits, a.Scores = append(a.Hits, rows), append(a.Scores, scores)
			a.Counts = append(a.Counts, c.Hits)
		}
	}
	a.CPU = (processor() - before).Seconds()
	return a, nil
}
