package search_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/overlakedb/overlake/internal/analysis"
	"github.com/overlakedb/overlake/internal/index/bm25"
	"github.com/overlakedb/overlake/internal/index/bm25/similarity"
	"github.com/overlakedb/overlake/internal/row"
	"github.com/overlakedb/overlake/internal/search"
	"github.com/overlakedb/overlake/internal/testenv"
)

// scifact is the SciFact collection: abstracts, claims as queries, and which abstracts are relevant to which claim.
type scifact struct {
	corpus  *corpus
	ids     [][]string // of the rows of each file
	queries []string   // ids of the test queries
	texts   []string
	judged  map[string]map[string]bool // query → documents
}

func loadSciFact(t testing.TB) *scifact {
	t.Helper()
	lines := func(name string, each func(line []byte)) {
		f, err := os.Open(testenv.Shared(t, "data", "scifact", name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var r io.Reader = f
		if strings.HasSuffix(name, ".gz") {
			if r, err = gzip.NewReader(f); err != nil {
				t.Fatal(err)
			}
		}
		sc := bufio.NewScanner(r)
		sc.Buffer(nil, 1<<20)
		for sc.Scan() {
			each(sc.Bytes())
		}
		if err := sc.Err(); err != nil {
			t.Fatal(err)
		}
	}
	s := &scifact{corpus: &corpus{batch: 256}, judged: map[string]map[string]bool{}}
	lines("qrels-test.tsv", func(line []byte) {
		f := strings.Split(string(line), "\t")
		if f[0] == "query-id" {
			return
		}
		if s.judged[f[0]] == nil {
			s.judged[f[0]] = map[string]bool{}
		}
		s.judged[f[0]][f[1]] = f[2] != "0"
	})
	type document struct {
		ID    string `json:"_id"`
		Title string
		Text  string
	}
	lines("queries.jsonl.gz", func(line []byte) {
		var q document
		if err := json.Unmarshal(line, &q); err != nil {
			t.Fatal(err)
		}
		if s.judged[q.ID] != nil {
			s.queries, s.texts = append(s.queries, q.ID), append(s.texts, q.Text)
		}
	})
	const perFile = 1500
	lines("corpus.jsonl.gz", func(line []byte) {
		var d document
		if err := json.Unmarshal(line, &d); err != nil {
			t.Fatal(err)
		}
		last := len(s.ids) - 1
		if last < 0 || len(s.ids[last]) == perFile {
			s.ids, s.corpus.files = append(s.ids, nil), append(s.corpus.files, nil)
			last++
		}
		s.ids[last] = append(s.ids[last], d.ID)
		s.corpus.files[last] = append(s.corpus.files[last], d.Title+" "+d.Text)
	})
	return s
}

// run gives the ids of the best documents for each query.
func (s *scifact) run(t testing.TB, name string, p similarity.Params, k int) [][]string {
	t.Helper()
	a := analyzer(t, name)
	queries := make([]bm25.Query, len(s.texts))
	for i, text := range s.texts {
		queries[i] = bm25.ParseQuery(a, text)
	}
	start := time.Now()
	hits, err := search.FlatText(context.Background(), search.FlatRequest{Files: s.corpus.textFiles(""), Analyzer: a, Queries: queries, Params: p, K: k, Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %d queries in one pass, %s", name, len(queries), time.Since(start).Round(time.Millisecond))
	out := make([][]string, len(hits))
	for i, list := range hits {
		for _, h := range list {
			out[i] = append(out[i], s.id(h.Addr))
		}
	}
	return out
}

func (s *scifact) id(a row.Addr) string { return s.ids[a.File][a.Pos] }

// ndcg is the mean nDCG@10 with gains of 0 and 1.
func (s *scifact) ndcg(ranked [][]string) float64 {
	sum := 0.0
	for i, q := range s.queries {
		gain, ideal, relevant := 0.0, 0.0, 0
		for _, yes := range s.judged[q] {
			if yes {
				relevant++
			}
		}
		for rank := range 10 {
			discount := 1 / math.Log2(float64(rank+2))
			if rank < len(ranked[i]) && s.judged[q][ranked[i][rank]] {
				gain += discount
			}
			if rank < relevant {
				ideal += discount
			}
		}
		sum += gain / ideal
	}
	return sum / float64(len(s.queries))
}

func TestSciFact(t *testing.T) {
	s := loadSciFact(t)
	if len(s.queries) != 300 {
		t.Fatalf("%d queries", len(s.queries))
	}
	english := s.ndcg(s.run(t, "english", similarity.DefaultParams, 10))
	t.Logf("english: nDCG@10 %.4f; with exact lengths it is 0.6827", english)
	if english < 0.68 {
		t.Errorf("english: nDCG@10 is %.4f", english)
	}

	// The reference tokens are runs of letters and digits, so numbers, abbreviations and contractions differ a little.
	ranked := s.run(t, "standard", similarity.DefaultParams, 10)
	standard := s.ndcg(ranked)
	reference := map[string][]string{}
	f, err := os.Open(testenv.Shared(t, "data", "scifact", "bm25-plain-top10.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		if fields := strings.Split(sc.Text(), "\t"); fields[0] != "query-id" {
			reference[fields[0]] = append(reference[fields[0]], fields[2])
		}
	}
	shared, first := 0, 0
	for i, q := range s.queries {
		if len(reference[q]) != 10 {
			t.Fatalf("the reference has %d documents for %s", len(reference[q]), q)
		}
		for _, id := range ranked[i] {
			if slices.Contains(reference[q], id) {
				shared++
			}
		}
		if ranked[i][0] == reference[q][0] {
			first++
		}
	}
	t.Logf("standard: nDCG@10 %.4f (reference 0.6634), %.1f %% of the reference's top 10, the same best document for %d queries of 300", standard, float64(shared)/30, first)
	if math.Abs(standard-0.6634) > 0.02 || shared < 2700 || first < 270 {
		t.Errorf("standard: nDCG@10 %.4f, %d of 3000 documents shared, %d best ones", standard, shared, first)
	}
}

// BenchmarkSciFactTokens analyzes the abstracts.
func BenchmarkSciFactTokens(b *testing.B) {
	s := loadSciFact(b)
	for _, name := range analysis.Names() {
		a := analyzer(b, name)
		b.Run(name, func(b *testing.B) {
			var stream analysis.Stream
			n, size := 0, 0
			for b.Loop() {
				for _, rows := range s.corpus.files {
					for _, text := range rows {
						size += len(text)
						for stream.Reset(a, text); stream.Next(); n++ {
						}
					}
				}
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds()/1e6, "Mtokens/s")
			b.ReportMetric(float64(size)/b.Elapsed().Seconds()/1e6, "MB/s")
		})
	}
}
