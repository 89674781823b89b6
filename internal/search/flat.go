package search

import (
	"context"
	"encoding/binary"
	"sync"
	"sync/atomic"

	"github.com/overlakedb/overlake/internal/analysis"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25"
	"github.com/overlakedb/overlake/internal/index/bm25/best"
	"github.com/overlakedb/overlake/internal/index/bm25/similarity"
	"github.com/overlakedb/overlake/internal/row"
)

// FlatRequest asks for the best rows of a text column, for many queries at once.
type FlatRequest struct {
	Files    []TextFile // hits name them by their place here
	Analyzer *analysis.Analyzer
	Queries  []bm25.Query
	Params   similarity.Params
	K        int        // hits a query; 0 gives none
	Deletes  *row.Set   // rows that are no hits; nil: none
	Cache    *TextCache // nil: remember nothing
	LogBytes int64      // memory for what the first pass notes; 0: 64 MiB
	Workers  int        // goroutines that analyze; 0: one a processor
}

// maxHits bounds the hits that all queries and workers may hold, 24 bytes each.
const maxHits = 16 << 20

const defaultLogBytes = 64 << 20

// FlatText gives the K best rows of each query by reading everything: scores are those of bm25.Scorer under the
// statistics of Collect, the order is T3's. K times the number of queries beyond 16 million is errs.Exhausted.
//
// A score needs statistics of all rows, so nothing can be scored while they are gathered. The pass therefore notes for
// every row that has a term of some query its length byte and its frequencies, a few bytes each, and scores these notes
// at its end. A file whose notes find no room is read once more. If the cache knows the statistics, rows are scored at once.
func FlatText(ctx context.Context, r FlatRequest) ([]row.Hits, error) {
	if err := r.Params.Check(); err != nil {
		return nil, err
	}
	if r.K < 0 || int64(r.K)*int64(max(len(r.Queries), 1)) > maxHits {
		return nil, errs.New(errs.Exhausted, "search.flat", "too many hits asked for", errs.Hint("at most %d over all queries", maxHits))
	}
	terms, index := termsOf(r.Queries)
	known, missing := r.Cache.lookup(r.Files, r.Analyzer, terms)
	every := make([]int, len(r.Files))
	for i := range every {
		every[i] = i
	}
	if len(missing) == 0 {
		s := newScoring(&r, index, total(known, terms))
		if err := scanTexts(ctx, r.Files, every, r.Workers, s.worker); err != nil {
			return nil, err
		}
		return s.hits(), nil
	}

	count := newCounting(r.Cache, r.Files, r.Analyzer, terms, index, known)
	notes := newNotes(len(r.Files), r.LogBytes)
	err := scanTexts(ctx, r.Files, every, r.Workers, func() textWorker { return notes.worker(count) })
	if err != nil {
		return nil, err
	}
	count.finish(every)
	s := newScoring(&r, index, total(count.stats, terms))
	var again []int
	w := s.scorer()
	for i := range r.Files {
		if notes.dropped[i].Load() {
			again = append(again, i)
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, errs.Wrap(errs.Canceled, "search.flat", err)
		}
		for _, log := range notes.logs[i] {
			w.replay(i, log)
		}
		notes.logs[i] = nil
	}
	w.finish()
	if len(again) > 0 {
		if err := scanTexts(ctx, r.Files, again, r.Workers, s.worker); err != nil {
			return nil, err
		}
	}
	return s.hits(), nil
}

// notes holds what the first pass found, by file.
//
// A log stands for one batch: the position of its first row, then for each row with a term of a query its distance to the
// row before, its length byte, the number of such terms, and for each the term's number and its frequency; all but the
// byte as varints.
type notes struct {
	limit   int64
	used    atomic.Int64
	dropped []atomic.Bool // no room for the file
	mu      sync.Mutex
	logs    [][][]byte
}

func newNotes(files int, limit int64) *notes {
	if limit <= 0 {
		limit = defaultLogBytes
	}
	return &notes{limit: limit, dropped: make([]atomic.Bool, files), logs: make([][][]byte, files)}
}

// keep stores a log, or drops everything of its file when there is no room.
func (n *notes) keep(file int, log []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.dropped[file].Load() {
		return
	}
	if n.used.Add(int64(len(log))) > n.limit {
		n.used.Add(-int64(len(log)))
		n.dropped[file].Store(true)
		for _, l := range n.logs[file] {
			n.used.Add(-int64(len(l)))
		}
		n.logs[file] = nil
		return
	}
	n.logs[file] = append(n.logs[file], append([]byte(nil), log...))
}

// worker counts and notes batches.
func (n *notes) worker(count *counting) textWorker {
	c := count.counter()
	freqs := make([]int32, len(count.terms))
	var s analysis.Stream
	var touched []int
	var log []byte
	return textWorker{
		batch: func(b textBatch) error {
			c.begin(b.file)
			log = binary.AppendUvarint(log[:0], uint64(b.first))
			last := b.first
			for i := range b.texts.Len() {
				text, ok := b.texts.At(i)
				if !ok {
					continue
				}
				c.nextRow()
				length, terms := 0, 0
				touched = touched[:0]
				for s.Reset(count.a, text); s.Next(); terms++ {
					if s.Increment > 0 { // what stands at the place of another term is no part of the length
						length++
					}
					if t := c.term(s.Term); t >= 0 {
						if freqs[t] == 0 {
							touched = append(touched, t)
						}
						freqs[t]++
					}
				}
				c.endRow(terms)
				if len(touched) == 0 {
					continue
				}
				if !n.dropped[b.file].Load() {
					pos := b.first + int64(i)
					log = binary.AppendUvarint(log, uint64(pos-last))
					last = pos
					log = append(log, similarity.EncodeLength(length))
					log = binary.AppendUvarint(log, uint64(len(touched)))
					for _, t := range touched {
						log = binary.AppendUvarint(log, uint64(t))
						log = binary.AppendUvarint(log, uint64(freqs[t]))
					}
				}
				for _, t := range touched {
					freqs[t] = 0
				}
			}
			n.keep(b.file, log)
			return nil
		},
		done: func() error { c.flush(); return nil },
	}
}

// scoring scores rows for many queries under known statistics.
type scoring struct {
	r       *FlatRequest
	index   *bm25.TermIndex
	scorers []*bm25.Scorer
	terms   [][]int // of a query, in its order, as numbers of the index
	queries [][]int // that have a term

	mu   sync.Mutex
	best []*best.Rows
}

func newScoring(r *FlatRequest, index *bm25.TermIndex, st bm25.Stats) *scoring {
	s := &scoring{r: r, index: index, queries: make([][]int, index.Len()), best: make([]*best.Rows, len(r.Queries))}
	for i, q := range r.Queries {
		s.best[i] = best.New(r.K)
		s.scorers = append(s.scorers, bm25.NewScorer(r.Analyzer, q, st, r.Params))
		numbers := make([]int, len(q.Terms))
		for j, t := range q.Terms {
			numbers[j] = index.Find([]byte(t))
			s.queries[numbers[j]] = append(s.queries[numbers[j]], i)
		}
		s.terms = append(s.terms, numbers)
	}
	return s
}

// rowScorer scores one row after another for one goroutine.
type rowScorer struct {
	s       *scoring
	freqs   []int32 // of the terms of all queries, in the row
	touched []int   // terms with a frequency
	asked   []int   // queries with a touched term
	stamp   []uint32
	now     uint32
	mine    []int32 // the frequencies of one query's terms
	best    []*best.Rows
}

func (s *scoring) scorer() *rowScorer {
	w := &rowScorer{s: s, freqs: make([]int32, s.index.Len()), stamp: make([]uint32, len(s.scorers)), best: make([]*best.Rows, len(s.scorers))}
	for i := range w.best {
		w.best[i] = best.New(s.r.K)
	}
	return w
}

// term counts a term of the row.
func (w *rowScorer) term(t int, freq int32) {
	if w.freqs[t] == 0 {
		w.touched = append(w.touched, t)
	}
	w.freqs[t] += freq
}

// row scores the row whose terms were counted and forgets them.
func (w *rowScorer) row(file int, pos int64, length byte) {
	if len(w.touched) == 0 {
		return
	}
	if w.now++; w.now == 0 {
		clear(w.stamp)
		w.now = 1
	}
	w.asked = w.asked[:0]
	for _, t := range w.touched {
		for _, q := range w.s.queries[t] {
			if w.stamp[q] != w.now {
				w.stamp[q] = w.now
				w.asked = append(w.asked, q)
			}
		}
	}
	for _, q := range w.asked {
		w.mine = w.mine[:0]
		for _, t := range w.s.terms[q] {
			w.mine = append(w.mine, w.freqs[t])
		}
		scorer := w.s.scorers[q]
		if !scorer.Query().Matches(w.mine) {
			continue
		}
		h := row.Hit{Addr: row.Addr{File: uint32(file), Pos: pos}, Score: scorer.Of(w.mine, length)}
		if w.best[q].Admits(h) && !w.s.r.Deletes.Contains(h.Addr) {
			w.best[q].Add(h)
		}
	}
	for _, t := range w.touched {
		w.freqs[t] = 0
	}
	w.touched = w.touched[:0]
}

// replay scores the rows of a log that notes wrote.
func (w *rowScorer) replay(file int, log []byte) {
	next := func() uint64 {
		v, n := binary.Uvarint(log)
		log = log[n:]
		return v
	}
	for pos := int64(next()); len(log) > 0; {
		pos += int64(next())
		length := log[0]
		log = log[1:]
		for n := next(); n > 0; n-- {
			t := int(next())
			w.term(t, int32(next()))
		}
		w.row(file, pos, length)
	}
}

// finish hands in what was found.
func (w *rowScorer) finish() {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	for q := range w.best {
		w.s.best[q].Merge(w.best[q])
	}
}

// worker scores batches as they are read.
func (s *scoring) worker() textWorker {
	w := s.scorer()
	var stream analysis.Stream
	return textWorker{
		batch: func(b textBatch) error {
			for i := range b.texts.Len() {
				text, ok := b.texts.At(i)
				if !ok {
					continue
				}
				length := 0
				for stream.Reset(s.r.Analyzer, text); stream.Next(); {
					if stream.Increment > 0 {
						length++
					}
					if t := s.index.Find(stream.Term); t >= 0 {
						w.term(t, 1)
					}
				}
				w.row(b.file, b.first+int64(i), similarity.EncodeLength(length))
			}
			return nil
		},
		done: func() error { w.finish(); return nil },
	}
}

// hits are the best rows of each query.
func (s *scoring) hits() []row.Hits {
	out := make([]row.Hits, len(s.best))
	for i := range s.best {
		out[i] = s.best[i].Hits()
	}
	return out
}
