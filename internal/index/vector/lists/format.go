package lists

import (
	"encoding/binary"
	"math"

	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/code"
	"github.com/overlakedb/overlake/internal/vec/kernel"
)

// params is the section that says what the index is.
type params struct {
	metric    vec.Metric
	code      code.Kind
	rerank    code.Kind
	hasRerank bool
	dim       int
	seed      uint64
	rows      int64
	lists     int
	dense     bool    // positions are 0 to rows-1
	length    float32 // the root of the mean squared length of a row
	tuning    tuning
	recall    float32   // what a search with K of 10 reaches, measured on rows of the index
	lean      float32   // for Dot: by how much of its radius, times the query's length, a list counts as nearer
	mean      []float32 // what is taken off each vector before it is turned; zeros for Float32
}

// tuning is what searches need to find a share of the K nearest: for K of 10 and 100, each for 95 and for 99 of 100.
type tuning [2][2]effort

type effort struct{ probes, rerank uint32 }

const (
	paramsSize   = 128 // before the mean
	paramsFormat = 1
	entrySize    = 16
	missing      = math.MaxUint32
)

func (p *params) encode() []byte {
	b := make([]byte, paramsSize, paramsSize+4*len(p.mean))
	le := binary.LittleEndian
	le.PutUint32(b, paramsFormat)
	b[4], b[5], b[6] = byte(p.metric), byte(p.code), byte(p.rerank)
	b[7] = flag(p.hasRerank) | flag(p.dense)<<1
	le.PutUint32(b[8:], uint32(p.dim))
	le.PutUint32(b[12:], uint32(p.lists))
	le.PutUint64(b[16:], p.seed)
	le.PutUint64(b[24:], uint64(p.rows))
	le.PutUint32(b[32:], math.Float32bits(p.length))
	le.PutUint32(b[36:], math.Float32bits(p.recall))
	at := 40
	for _, k := range p.tuning {
		for _, e := range k {
			le.PutUint32(b[at:], e.probes)
			le.PutUint32(b[at+4:], e.rerank)
			at += 8
		}
	}
	le.PutUint32(b[at:], math.Float32bits(p.lean))
	for _, v := range p.mean {
		b = le.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

func flag(on bool) byte {
	if on {
		return 1
	}
	return 0
}

func decodeParams(b []byte) (*params, error) {
	le := binary.LittleEndian
	if len(b) < paramsSize {
		return nil, corrupt("parameters of %d bytes", len(b))
	}
	if v := le.Uint32(b); v != paramsFormat {
		return nil, unsupported("version %d of the format", v)
	}
	p := &params{metric: vec.Metric(b[4]), code: code.Kind(b[5]), rerank: code.Kind(b[6]), hasRerank: b[7]&1 != 0, dense: b[7]&2 != 0,
		seed: le.Uint64(b[16:]), length: math.Float32frombits(le.Uint32(b[32:])), recall: math.Float32frombits(le.Uint32(b[36:]))}
	dim, lists, rows := le.Uint32(b[8:]), le.Uint32(b[12:]), le.Uint64(b[24:])
	if p.metric > vec.MetricL1 || p.code > code.Bit1 || p.rerank > code.Bit1 || b[7]&^3 != 0 {
		return nil, unsupported("metric %d, codes %d and %d, flags %x", b[4], b[5], b[6], b[7])
	}
	if dim < 1 || dim > maxDim || lists > maxLists || rows > maxRows || uint64(lists) > rows || lists == 0 && rows > 0 {
		return nil, corrupt("%d rows of %d elements in %d lists", rows, dim, lists)
	}
	if p.hasRerank && (p.rerank >= p.code) || p.metric == vec.MetricL1 && p.code != code.Float32 {
		return nil, corrupt("codes %s and %s for the metric %s", p.code, p.rerank, p.metric)
	}
	if !(p.length >= 0) || math.IsInf(float64(p.length), 0) || len(b) != paramsSize+4*int(dim) {
		return nil, corrupt("parameters of %d bytes, rows of length %v", len(b), p.length)
	}
	p.dim, p.lists, p.rows = int(dim), int(lists), int64(rows)
	at := 40
	for k := range p.tuning {
		for t := range p.tuning[k] {
			p.tuning[k][t] = effort{le.Uint32(b[at:]), le.Uint32(b[at+4:])}
			at += 8
		}
	}
	if p.lean = math.Float32frombits(le.Uint32(b[at:])); !(p.lean >= 0 && p.lean <= 1) {
		return nil, corrupt("lists that lean by %v", p.lean)
	}
	p.mean = make([]float32, dim)
	for i := range p.mean {
		v := math.Float32frombits(le.Uint32(b[paramsSize+4*i:]))
		if v-v != 0 {
			return nil, corrupt("a mean of %v", v)
		}
		p.mean[i] = v
	}
	return p, nil
}

// entry is what the directory holds of a list.
type entry struct {
	rows   uint32
	sum    uint32  // CRC-32C of its piece
	radius float32 // the largest distance of a row from the centroid
}

func appendEntry(b []byte, e entry) []byte {
	b = binary.LittleEndian.AppendUint32(b, e.rows)
	b = binary.LittleEndian.AppendUint32(b, e.sum)
	b = binary.LittleEndian.AppendUint32(b, math.Float32bits(e.radius))
	return binary.LittleEndian.AppendUint32(b, 0)
}

// layout is where the parts of a piece are, for a list of n rows. With Bit1, codes are blocks of 64 rows: the bits as
// kernel.ScanBlock takes them, then 64 scales and 64 addends. Else codes lie row by row, and scales and addends of all rows
// follow. Then come scales and addends for the rerank rows, positions, and the sums of the rerank rows.
type layout struct {
	scan, rerank  code.Kind
	hasRerank     bool
	codeBytes     int // of a row, or of the bits of a block
	rerankBytes   int // of a rerank row
	factors       bool
	rerankFactors bool
}

func newLayout(c coders) layout {
	l := layout{scan: c.scan.Kind(), codeBytes: c.scan.RowBytes(), factors: c.scan.Kind() != code.Float32}
	if l.scan == code.Bit1 {
		l.codeBytes = c.scan.BlockBytes()
	}
	if c.rerank != nil {
		l.hasRerank, l.rerank, l.rerankBytes = true, c.rerank.Kind(), c.rerank.RowBytes()
		l.rerankFactors = l.rerank != code.Float32
	}
	return l
}

const blockFactors = 2 * 4 * kernel.BlockRows

// codes is the number of bytes of the codes and factors of the scan.
func (l *layout) codes(n int) int64 {
	if l.scan == code.Bit1 {
		return int64(blocks(n)) * int64(l.codeBytes+blockFactors)
	}
	size := int64(n) * int64(l.codeBytes)
	if l.factors {
		size += 8 * int64(n)
	}
	return size
}

func blocks(n int) int { return (n + kernel.BlockRows - 1) / kernel.BlockRows }

// piece is the number of bytes of a list of n rows, a multiple of 64.
func (l *layout) piece(n int) int64 {
	size := l.codes(n) + 4*int64(n)
	if l.rerankFactors {
		size += 8 * int64(n)
	}
	if l.hasRerank {
		size += 4 * int64(n)
	}
	return (size + 63) / 64 * 64
}
