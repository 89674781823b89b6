// Package answers asks real data questions whose answers are known.
package answers

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/overlakedb/overlake"
	"github.com/overlakedb/overlake/internal/testenv"
	"github.com/overlakedb/overlake/test/ask"
)

func query(t *testing.T, db *overlake.DB, sql string, args ...any) [][]any {
	t.Helper()
	rows, err := db.SQL(t.Context(), sql, args...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	var out [][]any
	for r, err := range rows.Values() {
		if err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		out = append(out, slices.Clone(r))
	}
	return out
}

// TestTabular runs SQL over ten public tables, imported from Parquet, CSV and JSON, and compares with DuckDB's answers.
func TestTabular(t *testing.T) {
	dir := testenv.Shared(t, "data", "tabular")
	data, err := os.ReadFile(filepath.Join(dir, "expected.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	db := ask.Open(t, t.TempDir(), overlake.Options{})
	// Zip codes are text with leading zeros, which no inference can know.
	types := map[string]map[string]string{"zipcodes": {"zip_code": "VARCHAR"}}
	for table, file := range map[string]string{"flights": "flights-3m.parquet", "birdstrikes": "birdstrikes.parquet", "earthquakes": "earthquakes.parquet",
		"penguins": "penguins.json.gz", "weather": "weather.csv.gz", "airports": "airports.csv.gz", "zipcodes": "zipcodes.csv.gz"} {
		if _, _, err := db.Import(t.Context(), table, filepath.Join(dir, file), overlake.ImportOptions{Format: format(file), Types: types[table]}); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	passed, tried := 0, 0
	for line := range strings.Lines(string(data)) {
		var c struct {
			ID, SQL string
			Rows    [][]any
		}
		dec := json.NewDecoder(strings.NewReader(line))
		dec.UseNumber()
		if err := dec.Decode(&c); err != nil {
			t.Fatal(err)
		}
		tried++
		got, err := ask.Rows(t.Context(), db, c.SQL, ask.Text)
		if err != nil {
			t.Errorf("%s %s: %v", c.ID, c.SQL, err)
			continue
		}
		if why := differ(got, c.Rows); why != "" {
			t.Errorf("%s %s\n  %s", c.ID, c.SQL, why)
			continue
		}
		passed++
	}
	t.Logf("tabular: %d passed / %d tried", passed, tried)
}

func format(file string) string {
	switch {
	case strings.Contains(file, ".parquet"):
		return "parquet"
	case strings.Contains(file, ".csv"):
		return "csv"
	}
	return "json"
}

func differ(got [][]*string, want [][]any) string {
	if len(got) != len(want) {
		return fmt.Sprintf("%d rows, want %d", len(got), len(want))
	}
	for i := range want {
		for k := range want[i] {
			a := got[i][k]
			var b *string
			if want[i][k] != nil {
				s := fmt.Sprint(want[i][k])
				b = &s
			}
			if a == nil && b == nil {
				continue
			}
			if a == nil || b == nil || !equal(*a, *b) {
				return fmt.Sprintf("row %d column %d is %s, want %s", i, k, show(a), show(b))
			}
		}
	}
	return ""
}

func show(s *string) string {
	if s == nil {
		return "NULL"
	}
	return *s
}

func equal(a, b string) bool {
	if a == b || strings.ReplaceAll(strings.TrimSuffix(a, "Z"), "T", " ") == strings.TrimSuffix(b, "+00") {
		return true
	}
	x, err1 := strconv.ParseFloat(a, 64)
	y, err2 := strconv.ParseFloat(b, 64)
	return err1 == nil && err2 == nil && math.Abs(x-y) <= 1e-9*math.Max(1, math.Abs(y))
}

// TestFioriNeighbours compares exact cosine neighbours with those that come with the data.
func TestFioriNeighbours(t *testing.T) {
	db := ask.Open(t, t.TempDir(), overlake.Options{})
	example := testenv.Examples(t, "fiori-docs")
	if _, _, err := db.Import(t.Context(), "docs", filepath.Join(example, "docs.parquet"), overlake.ImportOptions{Vectors: map[string]int{"vector": 384}}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := db.Import(t.Context(), "truth", filepath.Join(example, "groundtruth.parquet"), overlake.ImportOptions{}); err != nil {
		t.Fatal(err)
	}
	// Every tenth page is asked about; all of them take a minute.
	for q := int32(0); q < 778; q += 10 {
		want := query(t, db, "SELECT id, cosine_distance FROM truth WHERE query = ? ORDER BY rank", q)
		got := query(t, db, "SELECT d.row, d.vector <=> q.vector AS distance FROM docs d, docs q WHERE q.row = ? ORDER BY distance, d.row LIMIT 11", q)
		if len(want) != 11 || len(got) != 11 {
			t.Fatalf("page %d: %d neighbours, want %d", q, len(got), len(want))
		}
		for k := range want {
			a, b := got[k][1].(float64), want[k][1].(float64)
			if math.Abs(a-b) > 2e-6 {
				t.Errorf("page %d: neighbour %d at %v, want %v", q, k, a, b)
			}
			// Neighbours at one distance may stand in any order.
			if got[k][0] != want[k][0] && (k == 0 || math.Abs(b-want[k-1][1].(float64)) > 2e-6) && (k == 10 || math.Abs(b-want[k+1][1].(float64)) > 2e-6) {
				t.Errorf("page %d: neighbour %d is %v, want %v", q, k, got[k][0], want[k][0])
			}
		}
	}
}

type scifactDoc struct {
	ID, Title, Text string
}

// TestSciFact measures the ranking of BM25 with the English analyzer against judgements of relevance.
func TestSciFact(t *testing.T) {
	dir := testenv.Shared(t, "data", "scifact")
	var docs []scifactDoc
	eachLine(t, filepath.Join(dir, "corpus.jsonl.gz"), func(line []byte) {
		var d struct {
			ID    string `json:"_id"`
			Title string
			Text  string
		}
		if err := json.Unmarshal(line, &d); err != nil {
			t.Fatal(err)
		}
		docs = append(docs, scifactDoc{d.ID, d.Title, d.Text})
	})
	queries := map[string]string{}
	eachLine(t, filepath.Join(dir, "queries.jsonl.gz"), func(line []byte) {
		var q struct {
			ID   string `json:"_id"`
			Text string
		}
		if err := json.Unmarshal(line, &q); err != nil {
			t.Fatal(err)
		}
		queries[q.ID] = q.Text
	})
	qrels := map[string]map[string]float64{}
	raw, err := os.ReadFile(filepath.Join(dir, "qrels-test.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		f := strings.Fields(line)
		if rel, err := strconv.ParseFloat(f[len(f)-1], 64); err == nil && len(f) == 3 {
			if qrels[f[0]] == nil {
				qrels[f[0]] = map[string]float64{}
			}
			qrels[f[0]][f[1]] = rel
		}
	}
	db := ask.Open(t, t.TempDir(), overlake.Options{})
	sc := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.BinaryTypes.String}, {Name: "body", Type: arrow.BinaryTypes.String}}, nil)
	tbl, err := db.CreateTable(t.Context(), "papers", overlake.TableSpec{Schema: sc})
	if err != nil {
		t.Fatal(err)
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, sc)
	for _, d := range docs {
		b.Field(0).(*array.StringBuilder).Append(d.ID)
		b.Field(1).(*array.StringBuilder).Append(d.Title + " " + d.Text)
	}
	rec := b.NewRecordBatch()
	r, err := array.NewRecordReader(sc, []arrow.RecordBatch{rec})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tbl.Append(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if _, err := db.SQL(t.Context(), "SET bm25.analyzer = english"); err != nil {
		t.Fatal(err)
	}
	// A scan reads and analyzes every text for every query, so a part of the queries must do outside the long tests.
	var ids []string
	for id := range qrels {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	step := 20
	if os.Getenv("OVERLAKE_DEEP") != "" {
		step = 1
	}
	var sum float64
	n := 0
	for i := 0; i < len(ids); i += step {
		id := ids[i]
		rows := query(t, db, "SELECT id FROM papers WHERE match(body, $1) ORDER BY bm25(body, $1) DESC, id LIMIT 10", queries[id])
		var dcg, ideal float64
		for k, row := range rows {
			dcg += qrels[id][row[0].(string)] / math.Log2(float64(k+2))
		}
		var rels []float64
		for _, v := range qrels[id] {
			rels = append(rels, v)
		}
		slices.SortFunc(rels, func(a, b float64) int { return int(b - a) })
		for k, v := range rels[:min(10, len(rels))] {
			ideal += v / math.Log2(float64(k+2))
		}
		sum += dcg / ideal
		n++
	}
	ndcg := sum / float64(n)
	t.Logf("SciFact: nDCG@10 %.4f over %d queries", ndcg, n)
	if step == 1 && ndcg < 0.68 {
		t.Errorf("nDCG@10 is %.4f, want 0.68", ndcg)
	}
	if ndcg < 0.5 {
		t.Errorf("nDCG@10 of the sample is %.4f", ndcg)
	}
}

func eachLine(t *testing.T, path string, f func(line []byte)) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	s := bufio.NewScanner(z)
	s.Buffer(nil, 16<<20)
	for s.Scan() {
		f(s.Bytes())
	}
	if s.Err() != nil {
		t.Fatal(s.Err())
	}
}
