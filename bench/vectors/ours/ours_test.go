package ours_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/overlakedb/overlake/bench/vectors/ours"
	"github.com/overlakedb/overlake/bench/vectors/points"
	"github.com/overlakedb/overlake/bench/vectors/worker"
	"github.com/overlakedb/overlake/internal/vec"
)

const (
	rows, dim, asked, k = 1000, 64, 20, 10
)

// answer is what a worker said to a line: words, and row numbers.
type answer struct {
	words worker.Words
	ids   []int32
}

// talk has a worker answer lines.
func talk(t *testing.T, lines ...string) []answer {
	t.Helper()
	var out bytes.Buffer
	if err := worker.Serve(strings.NewReader(strings.Join(lines, "\n")+"\n"), &out, "version=test", ours.Open); err != nil {
		t.Fatal(err)
	}
	var all []answer
	for _, l := range lines {
		head, err := out.ReadString('\n')
		if err != nil || !strings.HasPrefix(head, "ok") {
			t.Fatalf("%s: %s %v", l, head, err)
		}
		_, words := worker.Parse(head)
		n, err := words.Int("bytes", -1)
		if err != nil {
			t.Fatal(err)
		}
		ids := make([]int32, n/4)
		if err := binary.Read(&out, binary.LittleEndian, ids); err != nil {
			t.Fatal(err)
		}
		all = append(all, answer{words, ids})
	}
	return all
}

func file(t *testing.T, dir, name string, v any) string {
	t.Helper()
	data, err := binary.Append(nil, binary.LittleEndian, v)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name), data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name)
}

// TestContendersFind asks every kind the way the measurements do, and judges the answers as they are judged there.
func TestContendersFind(t *testing.T) {
	for _, metric := range []vec.Metric{vec.MetricL2, vec.MetricDot, vec.MetricCosine} {
		c := points.Clusters{Seed: 4, Dim: dim, Count: 20, Unit: metric == vec.MetricCosine}
		s := &points.Set{Dim: dim, Metric: metric}
		s.Base, s.Clusters = c.Rows(rows)
		queries := c.Queries(asked)
		f := s.Uncorrelated(0.3, 1)
		dir := t.TempDir()
		few := file(t, dir, "allowed", f.Allowed)
		data := fmt.Sprintf("data base=%s dim=%d metric=%s dir=%s few=%s", file(t, dir, "base", s.Base), dim, metric, dir, few)
		search := fmt.Sprintf("search queries=%s count=%d k=%d", file(t, dir, "queries", queries), asked, k)
		allowed := " allowed=" + few
		for _, test := range []struct {
			build, effort string
			filter        bool
			recall        float64
		}{
			{"build kind=scan", "", true, 1},
			{"build kind=codes code=tq8", "", false, 0.95},
			{"build kind=codes code=bit1", "", false, 0.2},
			{"build kind=graph code=float32 m=16 efc=100", " ef=100", true, 0.95},
			{"build kind=graph code=tq4 floats=1 m=16 efc=100", " ef=100 rerank=20", true, 0.95},
			{"build kind=graph code=tq8 m=16 efc=100", " ef=100", true, 0.9},
			{"build kind=lists code=tq4 rerank=float32 lists=16", " probes=12 rerank=40", true, 0.95},
			{"build kind=lists code=bit1 rerank=tq8", "", true, 0.9},
			{"build kind=lists code=tq8 rerank=none lists=16", " probes=16", false, 0.9},
			{"build kind=lists code=bit1 rerank=float32 lists=16 workers=2", " probes=16 rerank=100 threads=2", true, 0.95},
			{"build kind=graph code=float32 m=16 efc=100 workers=2", " ef=100 threads=3", true, 0.95},
			{"build kind=table index=hnsw_tq8 m=16 ef_construction=100", " ef=100 rerank=20", true, 0.95},
			{"build kind=table index=ivf lists=16", " probes=16 rerank=100", true, 0.9},
		} {
			lines := []string{data, test.build, "size", search + test.effort, search + test.effort + " empty=1"}
			if test.filter {
				lines = append(lines, search+test.effort+allowed)
			}
			said := talk(t, lines...)
			if size, err := said[2].words.Int("artifact", 0); err != nil || size < rows*dim/8 {
				t.Errorf("%v, %s: an artifact of %d bytes, %v", metric, test.build, size, err)
			}
			recall, _ := s.Truth(queries, k, nil).Recall(said[3].ids, k)
			if _, err := said[3].words.Seconds("cpu"); err != nil || recall < test.recall {
				t.Errorf("%v, %s: recall %v, %v", metric, test.build, recall, err)
			}
			if ids := said[4].ids; len(ids) != asked*k || ids[0] != -1 {
				t.Errorf("an empty loop gives %v", ids)
			}
			if test.filter {
				recall, forbidden := s.Truth(queries, k, &f).Recall(said[5].ids, k)
				if recall < test.recall || forbidden != 0 {
					t.Errorf("%v, %s, filtered: recall %v, %d forbidden", metric, test.build, recall, forbidden)
				}
			}
		}
	}
}

func TestWorkerRefuses(t *testing.T) {
	dir := t.TempDir()
	base := file(t, dir, "base", make([]float32, 4*dim))
	data := fmt.Sprintf("data base=%s dim=%d metric=l2 dir=%s\n", base, dim, dir)
	for _, lines := range []string{
		"dance\n", "search k=1 count=1\n", "data base=/nowhere dim=4 metric=l2\n", "data base=" + base + " dim=4 metric=far\n",
		data + "build kind=other\n", data + "build kind=codes code=other\n", data + "build kind=graph code=tq8 m=x\n",
		data + "build kind=scan\nsearch queries=" + base + " count=5 k=1\n",
		data + "build kind=scan\nsearch queries=" + base + " count=4 k=1 threads=2\n",
		data + "build kind=table index=none\n", "data base=" + base + " dim=4 metric=l2 few=/nowhere\n",
	} {
		var out bytes.Buffer
		if err := worker.Serve(strings.NewReader(lines), &out, "", ours.Open); err != nil {
			t.Fatal(err)
		}
		all := strings.Split(strings.TrimSpace(out.String()), "\n")
		if last := all[len(all)-1]; !strings.HasPrefix(last, "error ") {
			t.Errorf("%q: %s", lines, last)
		}
	}
}
