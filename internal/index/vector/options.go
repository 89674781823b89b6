package vector

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/code"
)

// Kind is how an index is made.
type Kind string

// The kinds. Those whose names end in tq8 and tq4 keep vectors in 8 and 4 bits a dimension, and floats for the last choice.
const (
	Flat    Kind = "flat"     // every vector is compared
	HNSW    Kind = "hnsw"     // a graph
	HNSWTQ8 Kind = "hnsw_tq8" // a graph
	HNSWTQ4 Kind = "hnsw_tq4" // a graph
	IVF     Kind = "ivf"      // lists around centroids, scanned in 1 bit a dimension, ranked again in 8
	IVFTQ8  Kind = "ivf_tq8"  // lists
	IVFTQ4  Kind = "ivf_tq4"  // lists
	IVFFlat Kind = "ivfflat"  // lists of floats
	HNSWPQ  Kind = "hnsw_pq"  // a graph over codes of about as many bits as product quantization with so many subspaces has
	IVFPQ   Kind = "ivf_pq"   // lists of such codes
	BQ      Kind = "bq"       // all codes of 1 bit a dimension are compared, and the best again in 8
)

// Kinds are all of them.
var Kinds = []Kind{Flat, HNSW, HNSWTQ8, HNSWTQ4, HNSWPQ, IVF, IVFTQ8, IVFTQ4, IVFPQ, IVFFlat, BQ}

// IsKind tells whether a name is that of a kind.
func IsKind(name string) bool { return slices.Contains(Kinds, Kind(name)) }

func (k Kind) graph() bool { return strings.HasPrefix(string(k), "hnsw") }
func (k Kind) lists() bool { return strings.HasPrefix(string(k), "ivf") || k == BQ }
func (k Kind) pq() bool    { return k == HNSWPQ || k == IVFPQ }

// tunedLists tells whether the number of lists can be chosen.
func (k Kind) tunedLists() bool { return k.lists() && k != BQ }

// code is how the kind packs what it looks at first. Product quantization gives a subspace one byte; the code with the
// least bits that are as many takes its place.
func (k Kind) code(params map[string]string, dim int) code.Kind {
	switch k {
	case HNSWTQ8, IVFTQ8:
		return code.TQ8
	case HNSWTQ4, IVFTQ4:
		return code.TQ4
	case IVF, BQ:
		return code.Bit1
	case HNSWPQ, IVFPQ:
		switch bits := 8 * number(params, "compression", defaultSubspaces); {
		case bits <= dim && k == IVFPQ:
			return code.Bit1
		case bits <= 4*dim:
			return code.TQ4
		}
		return code.TQ8
	}
	return code.Float32
}

// floats tells whether the kind looks at floats alone.
func (k Kind) floats() bool { return k == Flat || k == HNSW || k == IVFFlat }

// param is one parameter that an index can be given.
type param struct {
	name      string
	aliases   []string
	of        func(Kind) bool
	low, high int64
	search    bool // of a search alone: changing it asks for no build
}

func everyKind(Kind) bool { return true }

// The parameters, apart from metric. Bounds are pgvector's where it has them.
var paramList = []param{
	{name: "m", aliases: []string{"complexity"}, of: Kind.graph, low: 2, high: 100},                         // links of a row in the graph; default 16
	{name: "ef_construction", aliases: []string{"quality"}, of: Kind.graph, low: 4, high: 1000},             // candidates while the graph is built, at least twice m; default 200
	{name: "ef_search", of: Kind.graph, low: 1, high: 100_000, search: true},                                // candidates of a search; default: what found 99 of 100 neighbours when the index was built
	{name: "compression", aliases: []string{"subspaces"}, of: Kind.pq, low: 1, high: 16000},                 // bytes of a code, as subspaces of product quantization; default 8. The codes are those of 1, 4 or 8 bits a dimension that have as many
	{name: "lists", aliases: []string{"nlist"}, of: Kind.tunedLists, low: 1, high: 1 << 20},                 // lists; default: one for each 400 to 1,000 rows
	{name: "probes", aliases: []string{"nprobe"}, of: Kind.tunedLists, low: 1, high: 1 << 20, search: true}, // lists of a search; default: half as many again as found 95 of 100 neighbours when the index was built
	{name: "rerank", of: everyKind, low: 1, high: 100_000, search: true},                                    // candidates whose distances are computed again in full
	{name: "seed", of: everyKind, low: 0, high: 1 << 62},                                                    // of what is drawn at random; default 0
}

var metricNames = map[string]vec.Metric{
	"l2": vec.MetricL2, "euclidean": vec.MetricL2, "l2_squared": vec.MetricL2, "vector_l2_ops": vec.MetricL2, "halfvec_l2_ops": vec.MetricL2,
	"cosine": vec.MetricCosine, "vector_cosine_ops": vec.MetricCosine, "halfvec_cosine_ops": vec.MetricCosine,
	"ip": vec.MetricDot, "inner_product": vec.MetricDot, "innerproduct": vec.MetricDot, "dot": vec.MetricDot, "vector_ip_ops": vec.MetricDot, "halfvec_ip_ops": vec.MetricDot,
	"l1": vec.MetricL1, "manhattan": vec.MetricL1, "vector_l1_ops": vec.MetricL1, "halfvec_l1_ops": vec.MetricL1,
	"sparsevec_l2_ops": vec.MetricL2, "sparsevec_cosine_ops": vec.MetricCosine, "sparsevec_ip_ops": vec.MetricDot, "sparsevec_l1_ops": vec.MetricL1,
	"hamming": vec.MetricHamming, "bit_hamming_ops": vec.MetricHamming, "jaccard": vec.MetricJaccard, "bit_jaccard_ops": vec.MetricJaccard,
}

// classForm is the form that an operator class is for; false when the name is of none.
func classForm(name string) (f Form, ok bool) {
	name = strings.ToLower(name)
	switch {
	case !strings.HasSuffix(name, "_ops"):
		return Dense, false
	case strings.HasPrefix(name, "bit_"):
		return Bits, true
	case strings.HasPrefix(name, "sparsevec_"):
		return Sparse, true
	}
	return Dense, true
}

// ParseMetric reads the name of a metric or of one of pgvector's operator classes.
func ParseMetric(name string) (vec.Metric, bool) {
	m, ok := metricNames[strings.ToLower(name)]
	return m, ok
}

// CheckParam gives a parameter's name and value in their plain form.
func CheckParam(kind Kind, name, value string) (string, string, error) {
	const op = "vector.params"
	name = strings.ToLower(name)
	if name == "metric" {
		m, ok := ParseMetric(value)
		if !ok {
			return "", "", errs.New(errs.Invalid, op, "there is no such metric", errs.On(value), errs.Hint("write l2, cosine, ip or l1; hamming or jaccard for bit strings"))
		}
		if m == vec.MetricL1 && !kind.floats() {
			return "", "", errs.Newf(errs.Unsupported, op, "an index of kind %s cannot rank by l1: its codes keep products", kind)
		}
		return name, m.String(), nil
	}
	for _, p := range paramList {
		if p.name != name && !slices.Contains(p.aliases, name) || !p.of(kind) {
			continue
		}
		// In pgvector's words, where it has the parameter.
		hint := errs.Hint("%s is a whole number from %d to %d", name, p.low, p.high)
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return "", "", errs.With(errs.Newf(errs.Invalid, op, "invalid value for integer option %q: %s", name, value), hint)
		}
		if n < p.low || n > p.high {
			return "", "", errs.With(errs.Newf(errs.Invalid, op, "value %d out of bounds for option %q", n, name), hint)
		}
		return p.name, strconv.FormatInt(n, 10), nil
	}
	known := []string{"metric"}
	for _, p := range paramList {
		if p.of(kind) {
			known = append(known, p.name)
		}
	}
	return "", "", errs.With(errs.Newf(errs.Invalid, op, "an index of kind %s has no parameter %s", kind, name), errs.Hint("it takes %s", strings.Join(known, ", ")))
}

// CheckParams looks at parameters together.
func CheckParams(kind Kind, params map[string]string) error {
	if kind.graph() {
		if m, ef := number(params, "m", defaultM), number(params, "ef_construction", defaultEf); ef < 2*m {
			return errs.With(errs.New(errs.Invalid, "vector.params", "ef_construction must be greater than or equal to 2 * m"), errs.Hint("they are %d and %d", ef, m))
		}
	}
	return nil
}

// BuildParams are the parameters without those that only a search asks for.
func BuildParams(params map[string]string) map[string]string {
	out := maps.Clone(params)
	for _, p := range paramList {
		if p.search {
			delete(out, p.name)
		}
	}
	return out
}

// MetricOf is the metric that parameters ask for; l2 without.
func MetricOf(params map[string]string) vec.Metric {
	m, _ := ParseMetric(params["metric"])
	return m
}

// SearchParams are what parameters say about searches.
func SearchParams(params map[string]string) (ef, probes, rerank int) {
	return number(params, "ef_search", 0), number(params, "probes", 0), number(params, "rerank", 0)
}

const (
	defaultM         = 16
	defaultEf        = 200
	defaultSubspaces = 8
)

func number(params map[string]string, name string, otherwise int) int {
	if n, err := strconv.Atoi(params[name]); err == nil {
		return n
	}
	return otherwise
}
