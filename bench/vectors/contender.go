package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/overlakedb/overlake/bench/vectors/points"
	"github.com/overlakedb/overlake/bench/vectors/worker"
)

// contender is one kind of index, ours or a peer's, with the efforts at which it is asked.
type contender struct {
	name    string
	program string // which worker: overlake, hnswlib, faiss, usearch or lancedb
	ours    bool
	build   worker.Words
	efforts []effort
	filters bool // it takes part in filtered searches
	marks   bool // it is a table, with a column that marks few rows
	most    int  // queries that it is asked at most, 0: all
}

// effort is one point of a curve.
type effort struct {
	curve string
	level int
	words worker.Words
}

// The levels of the curves.
var (
	pools  = []int{10, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768}
	probes = []int{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256}
)

// enough is a recall from which more effort is not measured.
const enough = 0.997

// large is a number of rows from which contenders are left out whose builds take long and answer little.
const large = 1_000_000

// wide is the last dimension at which LanceDB's product quantization is trained.
const wide = 256

// The parameters that all graphs share.
const links, pool = 16, 200

func graphWords(more worker.Words) worker.Words {
	w := worker.Words{"m": strconv.Itoa(links), "efc": strconv.Itoa(pool)}
	for k, v := range more {
		w[k] = v
	}
	return w
}

// along makes a curve: key is what grows.
func along(key string, levels []int, fixed worker.Words) []effort {
	curve := ""
	if len(fixed) > 0 {
		for _, k := range []string{"rerank", "probes", "ef"} {
			if v, ok := fixed[k]; ok {
				curve += k + "=" + v + " "
			}
		}
		curve = curve[:len(curve)-1]
	}
	var out []effort
	for _, l := range levels {
		w := worker.Words{key: strconv.Itoa(l)}
		for k, v := range fixed {
			w[k] = v
		}
		out = append(out, effort{curve: curve, level: l, words: w})
	}
	return out
}

// across makes a curve for each value of another key.
func across(key string, levels []int, other string, values ...int) []effort {
	var out []effort
	for _, v := range values {
		out = append(out, along(key, levels, worker.Words{other: strconv.Itoa(v)})...)
	}
	return out
}

// lists is the number of lists of every inverted file over n rows: the power of two that is nearest to 1.6 sqrt(n).
func lists(n int) int {
	return 1 << max(2, int(math.Round(math.Log2(1.6*math.Sqrt(float64(n))))))
}

// The names that goals speak of.
const (
	hnswlib   = "hnswlib"
	fastScan  = "FAISS IVF,PQfs,RFlat" // begins the names of all its configurations
	graphF32  = "hnsw"
	graphTQ8  = "hnsw_tq8"
	graphTQ4  = "hnsw_tq4"
	inverted  = "ivf"
	exactScan = "scan"
	asBuilt   = "default" // the curve of one point of what an index does unless told otherwise
	codesOnly = "codes "
)

// contenders of a set, in the order in which they take turns.
func contenders(s *points.Set) []*contender {
	n := s.Len()
	inLists := strconv.Itoa(lists(n))
	upTo := func(levels []int) []int {
		at, _ := slices.BinarySearch(levels, lists(n)+1)
		return levels[:at]
	}
	out := []*contender{
		{name: hnswlib, program: "hnswlib", filters: true, build: graphWords(worker.Words{"kind": "hnsw"}), efforts: along("ef", pools, nil)},
		{name: graphF32, program: "overlake", ours: true, filters: true,
			build: graphWords(worker.Words{"kind": "graph", "code": "float32"}), efforts: along("ef", pools, nil)},
		{name: "FAISS HNSW16,Flat", program: "faiss", build: graphWords(worker.Words{"factory": "HNSW16,Flat"}), efforts: along("ef", pools, nil)},
		{name: graphTQ8, program: "overlake", ours: true, filters: true,
			build: graphWords(worker.Words{"kind": "graph", "code": "tq8", "floats": "1"}), efforts: across("ef", pools, "rerank", 10, 20)},
		{name: "FAISS HNSW16,SQ8", program: "faiss", build: graphWords(worker.Words{"factory": "HNSW16,SQ8"}), efforts: along("ef", pools, nil)},
		{name: graphTQ4, program: "overlake", ours: true,
			build: graphWords(worker.Words{"kind": "graph", "code": "tq4", "floats": "1"}), efforts: across("ef", pools, "rerank", 20, 30)},
		{name: "usearch f32", program: "usearch", build: graphWords(worker.Words{"dtype": "f32"}), efforts: along("ef", pools, nil)},
		{name: "hnsw_tq8, codes alone", program: "overlake", ours: true,
			build: graphWords(worker.Words{"kind": "graph", "code": "tq8"}), efforts: along("ef", pools, nil)},
		{name: "usearch bf16", program: "usearch", build: graphWords(worker.Words{"dtype": "bf16"}), efforts: along("ef", pools, nil)},
		{name: exactScan, program: "overlake", ours: true, filters: true, most: 100, build: worker.Words{"kind": "scan"}, efforts: []effort{{}}},
		{name: "FAISS IVF,Flat", program: "faiss", build: worker.Words{"factory": "IVF" + inLists + ",Flat"}, efforts: along("probes", upTo(probes), nil)},
	}
	for _, l := range []struct {
		code, rerank string
		depths       []int
		filters      bool
	}{
		{"tq4", "float32", []int{12, 20, 32}, true}, {"bit1", "float32", []int{40, 80, 160}, true}, {"bit1", "tq8", []int{40, 80, 160}, false}, {"tq8", "none", nil, false},
	} {
		c := &contender{name: inverted + " " + l.code + "+" + l.rerank, program: "overlake", ours: true, filters: l.filters,
			build: worker.Words{"kind": "lists", "lists": inLists, "code": l.code, "rerank": l.rerank}}
		if c.efforts = across("probes", upTo(probes), "rerank", l.depths...); l.depths == nil {
			c.efforts = along("probes", upTo(probes), nil)
		}
		out = append(out, c)
	}
	for _, bits := range [][2]int{{2, 4}, {4, 2}} { // dimensions of a subquantizer of 4 bits
		if s.Dim%bits[0] == 0 {
			sub := s.Dim / bits[0]
			out = append(out, &contender{name: fmt.Sprintf("%s PQ%dx4fs", fastScan, sub), program: "faiss",
				build: worker.Words{"factory": fmt.Sprintf("IVF%s,PQ%dx4fs,RFlat", inLists, sub)}, efforts: across("probes", upTo(probes), "rerank", 2, 4, 8, 16)})
		}
	}
	for _, c := range out {
		if c.ours && c.name != exactScan {
			c.efforts = append(c.efforts, effort{curve: asBuilt})
		}
	}
	if n >= 10_000 && n < large {
		if s.Dim <= wide {
			out = append(out, &contender{name: "LanceDB IVF_PQ", program: "lancedb", most: 50,
				build: worker.Words{"type": "IVF_PQ", "lists": inLists, "sub": strconv.Itoa(s.Dim / 8)}, efforts: across("probes", []int{4, 8, 16, 32, 64}, "rerank", 5, 20)})
		}
		out = append(out,
			&contender{name: "LanceDB IVF_RQ", program: "lancedb", most: 50,
				build: worker.Words{"type": "IVF_RQ", "lists": inLists}, efforts: across("probes", []int{4, 8, 16, 32, 64}, "rerank", 5, 20)},
			&contender{name: "LanceDB IVF_HNSW_SQ", program: "lancedb", most: 50,
				build: graphWords(worker.Words{"type": "IVF_HNSW_SQ", "lists": "1"}), efforts: across("ef", []int{16, 32, 64, 128, 256}, "probes", 1)})
	}
	return slices.DeleteFunc(out, func(c *contender) bool {
		return n >= large && (c.name == "usearch bf16" || c.name == graphTQ8+", codes alone")
	})
}

// exhaustive are the contenders that look at the code of every row and at nothing else.
func exhaustive(s *points.Set) []*contender {
	var out []*contender
	for _, c := range []string{"tq8", "tq4", "bit1"} {
		out = append(out, &contender{name: codesOnly + c, program: "overlake", ours: true, build: worker.Words{"kind": "codes", "code": c}})
	}
	factories := []string{"SQ8", "SQ4", "RaBitQ"}
	if s.Dim%2 == 0 {
		factories = append(factories, fmt.Sprintf("PQ%dx4fs", s.Dim/2))
	}
	for _, f := range factories {
		out = append(out, &contender{name: "FAISS " + f, program: "faiss", build: worker.Words{"factory": f}})
	}
	for _, c := range out {
		c.efforts = []effort{{}}
	}
	return out
}
