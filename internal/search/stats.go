package search

import (
	"container/list"
	"context"
	"sync"

	"github.com/overlakedb/overlake/internal/analysis"
	"github.com/overlakedb/overlake/internal/index/bm25"
)

// The bounds of a cache of text statistics, in bytes.
const (
	defaultCacheBytes = 64 << 20
	maxTableBytes     = 16 << 20 // of the table of all terms of one file
	maxAskedTerms     = 4096     // kept of a file without such a table
)

// fileStats is what one file adds to the statistics. It is immutable once it is in a cache.
type fileStats struct {
	docs, sum int64
	asked     map[string]int64 // document frequencies of terms asked for, 0 too
	all       *termTable       // document frequencies of all terms, or nil
	tooMany   bool             // a table of all terms has been tried and was too large
}

// docFreq is the document frequency of a term, if it is known.
func (s *fileStats) docFreq(term string) (int64, bool) {
	if s.all != nil {
		return s.all.rows(term), true
	}
	n, ok := s.asked[term]
	return n, ok
}

func (s *fileStats) knows(terms []string) bool {
	for _, t := range terms {
		if _, ok := s.docFreq(t); !ok {
			return false
		}
	}
	return true
}

// size estimates the memory of the statistics in bytes.
func (s *fileStats) size() int64 {
	n := int64(256)
	for t := range s.asked {
		n += int64(len(t)) + 64
	}
	if s.all != nil {
		n += s.all.size()
	}
	return n
}

// TextCache remembers the statistics of files, by T4 for ever, and forgets those least recently used when they take more
// than its bound. A file that is asked for other terms a second time is read with a table of all its terms, if that is
// small enough, so that it need not be read for statistics again. Safe for concurrent use; a nil cache remembers nothing.
type TextCache struct {
	mu      sync.Mutex
	limit   int64
	used    int64
	entries map[string]*list.Element // of *cacheEntry
	recent  list.List                // front: most recently used
}

type cacheEntry struct {
	key   string
	stats *fileStats
	size  int64
}

// NewTextCache returns an empty cache of 64 MiB.
func NewTextCache() *TextCache { return NewTextCacheOf(defaultCacheBytes) }

// NewTextCacheOf returns an empty cache that takes no more than about limit bytes.
func NewTextCacheOf(limit int64) *TextCache {
	return &TextCache{limit: limit, entries: map[string]*list.Element{}}
}

// Bytes is the memory the cache takes, about.
func (c *TextCache) Bytes() int64 {
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used
}

func cacheKey(f TextFile, a *analysis.Analyzer) string { return a.Fingerprint() + "\x00" + f.Key }

func (c *TextCache) get(f TextFile, a *analysis.Analyzer) *fileStats {
	if c == nil || f.Key == "" {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[cacheKey(f, a)]
	if e == nil {
		return nil
	}
	c.recent.MoveToFront(e)
	return e.Value.(*cacheEntry).stats
}

// put remembers the statistics of a file, together with the terms known before.
func (c *TextCache) put(f TextFile, a *analysis.Analyzer, s *fileStats) {
	if c == nil || f.Key == "" {
		return
	}
	key := cacheKey(f, a)
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[key]; e != nil {
		old := e.Value.(*cacheEntry).stats
		if old.all != nil {
			return // knows everything
		}
		if s.all == nil && len(old.asked)+len(s.asked) <= maxAskedTerms {
			both := &fileStats{docs: s.docs, sum: s.sum, tooMany: old.tooMany || s.tooMany, asked: make(map[string]int64, len(old.asked)+len(s.asked))}
			for _, m := range []map[string]int64{old.asked, s.asked} {
				for t, n := range m {
					both.asked[t] = n
				}
			}
			s = both
		}
		c.drop(e)
	}
	size := s.size() + int64(len(key))
	if size > c.limit {
		return
	}
	c.entries[key] = c.recent.PushFront(&cacheEntry{key, s, size})
	c.used += size
	for c.used > c.limit {
		c.drop(c.recent.Back())
	}
}

func (c *TextCache) drop(e *list.Element) {
	entry := c.recent.Remove(e).(*cacheEntry)
	delete(c.entries, entry.key)
	c.used -= entry.size
}

// Collect gives the statistics over the files for the terms of the queries, in one pass over the files that the cache
// does not know well enough. Statistics follow T1.
func (c *TextCache) Collect(ctx context.Context, files []TextFile, a *analysis.Analyzer, queries ...bm25.Query) (bm25.Stats, error) {
	terms, index := termsOf(queries)
	known, missing := c.lookup(files, a, terms)
	if len(missing) > 0 {
		found := newCounting(c, files, a, terms, index, known)
		if err := scanTexts(ctx, files, missing, 0, found.worker); err != nil {
			return bm25.Stats{}, err
		}
		found.finish(missing)
		for _, i := range missing {
			known[i] = found.stats[i]
		}
	}
	return total(known, terms), nil
}

// termsOf numbers the distinct terms of queries.
func termsOf(queries []bm25.Query) ([]string, *bm25.TermIndex) {
	var terms []string
	index := &bm25.TermIndex{}
	for _, q := range queries {
		for _, t := range q.Terms {
			if index.Add(t) == len(terms) {
				terms = append(terms, t)
			}
		}
	}
	return terms, index
}

// lookup finds the statistics of each file, and the files whose statistics are not known for all terms.
func (c *TextCache) lookup(files []TextFile, a *analysis.Analyzer, terms []string) (known []*fileStats, missing []int) {
	known = make([]*fileStats, len(files))
	for i, f := range files {
		if known[i] = c.get(f, a); known[i] == nil || !known[i].knows(terms) {
			missing = append(missing, i)
		}
	}
	return known, missing
}

func total(files []*fileStats, terms []string) bm25.Stats {
	st := bm25.Stats{DocFreq: make(map[string]int64, len(terms))}
	for _, f := range files {
		st.Docs += f.docs
		st.SumTotalTermFreq += f.sum
	}
	for _, t := range terms {
		n := int64(0)
		for _, f := range files {
			k, _ := f.docFreq(t)
			n += k
		}
		st.DocFreq[t] = n
	}
	return st
}

// counting gathers the statistics of files that workers read in parts.
type counting struct {
	cache *TextCache
	files []TextFile
	a     *analysis.Analyzer
	terms []string
	index *bm25.TermIndex

	mu      sync.Mutex
	stats   []*fileStats
	counts  [][]int64 // of a file, by term
	table   []bool    // whether a file gets a table of all terms
	tooMany []bool    // whether it had too many for one
}

// wantsTable decides whether a file that must be read gets a table of all its terms: when it was read before, and has
// not been too large.
func (c *TextCache) wantsTable(f TextFile, known *fileStats) bool {
	return c != nil && f.Key != "" && known != nil && known.all == nil && !known.tooMany
}

// newCounting prepares to count files of which known says what the cache knows.
func newCounting(c *TextCache, files []TextFile, a *analysis.Analyzer, terms []string, index *bm25.TermIndex, known []*fileStats) *counting {
	n := len(files)
	k := &counting{cache: c, files: files, a: a, terms: terms, index: index, stats: make([]*fileStats, n), counts: make([][]int64, n), table: make([]bool, n), tooMany: make([]bool, n)}
	for i, f := range files {
		k.table[i] = c.wantsTable(f, known[i])
	}
	return k
}

// counter counts one row after another of one file at a time.
type counter struct {
	k         *counting
	file      int // -1 before the first
	docs, sum int64
	counts    []int64
	last      []uint32 // the row a term was last seen in
	row       uint32
	all       *termTable
}

func (k *counting) counter() *counter {
	return &counter{k: k, file: -1, counts: make([]int64, len(k.terms)), last: make([]uint32, len(k.terms))}
}

// begin makes ready for rows of a file.
func (n *counter) begin(file int) {
	if file == n.file {
		return
	}
	n.flush()
	n.file = file
	n.k.mu.Lock()
	defer n.k.mu.Unlock()
	if n.k.table[file] {
		n.all = newTermTable()
	}
}

// nextRow makes ready for the terms of a row.
func (n *counter) nextRow() {
	if n.row++; n.row == 0 { // after 4 billion rows
		clear(n.last)
		n.row = 1
	}
}

// term counts one term of the row and returns its number, or -1 if no query has it.
func (n *counter) term(term []byte) int {
	if n.all != nil {
		n.all.add(term, n.row)
	}
	i := n.k.index.Find(term)
	if i >= 0 && n.last[i] != n.row {
		n.last[i] = n.row
		n.counts[i]++
	}
	return i
}

// endRow counts the row if it has terms.
func (n *counter) endRow(length int) {
	if length > 0 {
		n.docs++
		n.sum += int64(length)
	}
	if n.all != nil && n.all.size() > maxTableBytes {
		n.all = nil
		n.k.mu.Lock()
		n.k.giveUpTable(n.file)
		n.k.mu.Unlock()
	}
}

// flush adds what was counted to the file's statistics.
func (n *counter) flush() {
	if n.file < 0 {
		return
	}
	k := n.k
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.counts[n.file] == nil {
		k.counts[n.file] = make([]int64, len(k.terms))
		k.stats[n.file] = &fileStats{}
	}
	s := k.stats[n.file]
	s.docs += n.docs
	s.sum += n.sum
	for i, c := range n.counts {
		k.counts[n.file][i] += c
	}
	if k.table[n.file] && n.all != nil {
		if s.all == nil {
			s.all = n.all
		} else if s.all.merge(n.all); s.all.size() > maxTableBytes {
			k.giveUpTable(n.file)
		}
	}
	n.docs, n.sum, n.all = 0, 0, nil
	clear(n.counts)
}

// giveUpTable says that a file has too many terms for a table. The caller holds the lock.
func (k *counting) giveUpTable(file int) {
	k.table[file] = false
	k.tooMany[file] = true
}

// worker counts batches.
func (k *counting) worker() textWorker {
	n := k.counter()
	var s analysis.Stream
	return textWorker{
		batch: func(b textBatch) error {
			n.begin(b.file)
			for i := range b.texts.Len() {
				text, ok := b.texts.At(i)
				if !ok {
					continue
				}
				n.nextRow()
				terms := 0
				for s.Reset(k.a, text); s.Next(); terms++ {
					n.term(s.Term)
				}
				n.endRow(terms)
			}
			return nil
		},
		done: func() error { n.flush(); return nil },
	}
}

// finish completes the statistics of the files that were read, empty ones too, and remembers them.
func (k *counting) finish(read []int) {
	for _, i := range read {
		if k.counts[i] == nil { // no batch came
			k.counts[i] = make([]int64, len(k.terms))
			k.stats[i] = &fileStats{}
		}
		s := k.stats[i]
		if s.all == nil || !k.table[i] {
			s.all, s.tooMany = nil, k.tooMany[i]
			s.asked = make(map[string]int64, len(k.terms))
			for j, t := range k.terms {
				s.asked[t] = k.counts[i][j]
			}
		}
		k.cache.put(k.files[i], k.a, s)
	}
}
