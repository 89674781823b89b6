package vec

import "fmt"

// Metric is a distance by which rows are ranked: smaller is nearer.
type Metric uint8

// The metrics, with pgvector's operators.
const (
	MetricL2     Metric = iota // <->
	MetricDot                  // <#>, the negative inner product
	MetricCosine               // <=>
	MetricL1                   // <+>
	// Of bit strings, see Hamming and Jaccard; Distance and Distances do not know these.
	MetricHamming // <~>
	MetricJaccard // <%>
)

var metricNames = [...]string{"l2", "ip", "cosine", "l1", "hamming", "jaccard"}

// String is the name of the metric: l2, ip, cosine, l1, hamming or jaccard.
func (m Metric) String() string {
	if int(m) < len(metricNames) {
		return metricNames[m]
	}
	return fmt.Sprintf("metric(%d)", uint8(m))
}

// OfBits tells whether the metric is one of bit strings; all others are of numbers.
func (m Metric) OfBits() bool { return m == MetricHamming || m == MetricJaccard }

// Distance is the distance of one pair.
func (m Metric) Distance(a, b []float32) float64 {
	switch m {
	case MetricL2:
		return L2(a, b)
	case MetricDot:
		return NegativeDot(a, b)
	case MetricCosine:
		return Cosine(a, b)
	case MetricL1:
		return L1(a, b)
	}
	panic("vec: unknown " + m.String())
}

// Distances fills out with the distances of the query to rows that lie one after another, len(query) elements each. It
// panics unless rows holds len(out) of them.
func (m Metric) Distances(query, rows []float32, out []float64) {
	dim := len(query)
	if len(rows) != dim*len(out) {
		panic(fmt.Sprintf("vec: %d elements are not %d rows of %d", len(rows), len(out), dim))
	}
	switch m {
	case MetricCosine:
		cosines(query, rows, out)
	default:
		for i := range out {
			out[i] = m.Distance(query, rows[i*dim:(i+1)*dim])
		}
	}
}

// cosines adds up the square of the query once.
func cosines(query, rows []float32, out []float64) {
	dim := len(query)
	xx := Dot(query, query)
	for i := range out {
		dot, yy := dotAndSquare(query, rows[i*dim:(i+1)*dim])
		out[i] = cosineOf(dot, xx, yy)
	}
}

func dotAndSquare(a, b []float32) (dot, square float32) {
	b = b[:len(a)]
	var d0, d1, d2, d3, y0, y1, y2, y3 float32
	i := 0
	for ; i < len(a)-3; i += 4 {
		d0 += a[i] * b[i]
		y0 += b[i] * b[i]
		d1 += a[i+1] * b[i+1]
		y1 += b[i+1] * b[i+1]
		d2 += a[i+2] * b[i+2]
		y2 += b[i+2] * b[i+2]
		d3 += a[i+3] * b[i+3]
		y3 += b[i+3] * b[i+3]
	}
	for ; i < len(a); i++ {
		d0 += a[i] * b[i]
		y0 += b[i] * b[i]
	}
	return (d0 + d1) + (d2 + d3), (y0 + y1) + (y2 + y3)
}

// SquaredL2Many, DotMany and L1Many are the raw sums for rows as in Distances, for rankings that need no root.
func SquaredL2Many(query, rows []float32, out []float32) { many(SquaredL2, query, rows, out) }

// DotMany gives inner products.
func DotMany(query, rows []float32, out []float32) { many(Dot, query, rows, out) }

// L1Many gives sums of absolute differences.
func L1Many(query, rows []float32, out []float32) { many(l1, query, rows, out) }

func many(f func(a, b []float32) float32, query, rows, out []float32) {
	dim := len(query)
	if len(rows) != dim*len(out) {
		panic(fmt.Sprintf("vec: %d elements are not %d rows of %d", len(rows), len(out), dim))
	}
	for i := range out {
		out[i] = f(query, rows[i*dim:(i+1)*dim])
	}
}
