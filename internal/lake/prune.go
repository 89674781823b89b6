package lake

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/apache/iceberg-go"
	"github.com/google/uuid"

	"github.com/overlakedb/overlake/internal/predicate"
)

// Pruning: may a file hold a row for which the filter is true?
//
// The filter is bound once per plan: negations are pushed down to the leaves, column names become field ids, constants
// become datums. Evidence about a column then comes from three places, each of which only ever says "no":
//
//	V1  the manifest's line in the list, which bounds every partition field,
//	V2  the file's partition tuple, through any transform of any partition spec the table ever had,
//	V3  the file's column statistics.
//
// All three are brought to one form, what a range of source values allows. Whatever is missing, malformed, of a type or
// transform not known here, or compared with a constant we are not sure of, allows everything.

type nodeKind uint8

const (
	nodeAll nodeKind = iota
	nodeNone
	nodeAnd
	nodeOr
	nodeLeaf
)

type leafOp uint8

const (
	leafIn leafOp = iota // equal to one of the literals
	leafNotIn
	leafLt
	leafLe
	leafGt
	leafGe
	leafNull
	leafNotNull
	leafPrefix
	leafNotPrefix
)

// filterNode is a bound filter.
type filterNode struct {
	kind nodeKind
	kids []*filterNode
	leaf leaf
}

type leaf struct {
	field    iceberg.NestedField
	op       leafOp
	literals []literalRange
}

var (
	allNode  = &filterNode{kind: nodeAll}
	noneNode = &filterNode{kind: nodeNone}
)

// bindFilter binds a filter to a schema; negate binds its negation.
func bindFilter(e predicate.Expr, s *iceberg.Schema, negate bool) *filterNode {
	parts := func(list []predicate.Expr, and bool) *filterNode {
		n := &filterNode{kind: nodeAnd}
		if !and {
			n.kind = nodeOr
		}
		for _, p := range list {
			n.kids = append(n.kids, bindFilter(p, s, negate))
		}
		return n
	}
	switch e := e.(type) {
	case predicate.True:
		if negate {
			return noneNode
		}
	case predicate.False:
		if !negate {
			return noneNode
		}
	case predicate.And:
		return parts(e, !negate)
	case predicate.Or:
		return parts(e, negate)
	case predicate.Not:
		return bindFilter(e.X, s, !negate)
	case predicate.Compare:
		op := e.Op
		if negate {
			op = [...]predicate.Op{predicate.Ne, predicate.Eq, predicate.Ge, predicate.Gt, predicate.Le, predicate.Lt}[op]
		}
		return bindCompare(e.Column, op, []predicate.Value{e.Value}, s)
	case predicate.In:
		op := predicate.Eq
		if negate {
			op = predicate.Ne
		}
		return bindCompare(e.Column, op, e.Values, s)
	case predicate.IsNull:
		if f, ok := columnOf(s, e.Column); ok {
			op := leafNull
			if negate {
				op = leafNotNull
			}
			return &filterNode{kind: nodeLeaf, leaf: leaf{field: f, op: op}}
		}
	case predicate.StartsWith:
		f, ok := columnOf(s, e.Column)
		if _, text := f.Type.(iceberg.StringType); ok && text {
			op := leafPrefix
			if negate {
				op = leafNotPrefix
			}
			return &filterNode{kind: nodeLeaf, leaf: leaf{field: f, op: op, literals: []literalRange{exactly(datum{kind: bytesDatum, b: []byte(e.Prefix)})}}}
		}
	}
	return allNode
}

// columnOf finds a top-level column: the exact name first, then a name that differs in case only, if there is just one.
func columnOf(s *iceberg.Schema, name string) (found iceberg.NestedField, ok bool) {
	n := 0
	for _, f := range s.Fields() {
		if f.Name == name {
			return f, true
		}
		if strings.EqualFold(f.Name, name) {
			found = f
			n++
		}
	}
	return found, n == 1
}

func bindCompare(column string, op predicate.Op, values []predicate.Value, s *iceberg.Schema) *filterNode {
	f, ok := columnOf(s, column)
	if !ok || kindOf(f.Type) == noDatum {
		return allNode
	}
	switch f.Type.(type) {
	case iceberg.Int32Type, iceberg.Int64Type, iceberg.DecimalType:
		if !fit(values, f.Type) {
			return allNode
		}
	}
	l := leaf{field: f, op: [...]leafOp{leafIn, leafNotIn, leafLt, leafLe, leafGt, leafGe}[op]}
	for _, v := range values {
		r, ok := bindLiteral(v, f.Type)
		if !ok {
			return allNode
		}
		if r.above {
			switch l.op {
			case leafIn, leafNotIn:
				continue // no row equals it
			case leafLt:
				l.op = leafLe
			case leafGe:
				l.op = leafGt
			}
			r.above = false
		}
		l.literals = append(l.literals, r)
	}
	if len(l.literals) == 0 {
		if l.op == leafIn {
			return noneNode
		}
		l.op = leafNotNull
	}
	return &filterNode{kind: nodeLeaf, leaf: l}
}

// may evaluates a bound filter with one kind of evidence.
func (n *filterNode) may(leafMay func(*leaf) bool) bool {
	switch n.kind {
	case nodeNone:
		return false
	case nodeAnd:
		for _, k := range n.kids {
			if !k.may(leafMay) {
				return false
			}
		}
	case nodeOr:
		for _, k := range n.kids {
			if k.may(leafMay) {
				return true
			}
		}
		return false
	case nodeLeaf:
		return leafMay(&n.leaf)
	}
	return true
}

// span is what some evidence says about the values of one column.
type span struct {
	nulls        int8 // 1 every row is NULL, 0 some may be, -1 none is
	lo, hi       datum
	hasLo, hasHi bool
	openHi       bool // values that begin with hi may lie above it
	nan          bool // some values may be NaN, which sorts above everything
}

// allows tells whether a leaf may be true for a value of the span.
func (s *span) allows(l *leaf) bool {
	switch l.op {
	case leafNull:
		return s.nulls >= 0
	case leafNotNull:
		return s.nulls <= 0
	}
	if s.nulls > 0 {
		return false
	}
	if s.hasLo && s.hasHi && !s.openHi && s.lo.compare(s.hi) > 0 {
		return true // nonsense, or ordered by another rule than ours
	}
	lo := func(d datum) int { return s.lo.compare(d) }
	hi := func(d datum) int { // a string that continues hi may be in the span
		c := s.hi.compare(d)
		if c < 0 && s.openHi && bytes.HasPrefix(d.b, s.hi.b) {
			return 1
		}
		if c == 0 && s.openHi {
			return 1
		}
		return c
	}
	v := l.literals[0]
	switch l.op {
	case leafIn:
		for _, v := range l.literals {
			if !(s.hasLo && lo(v.hi) > 0) && !(s.hasHi && hi(v.lo) < 0) { // NaN equals no literal there is
				return true
			}
		}
		return false
	case leafNotIn:
		if !s.hasLo || !s.hasHi || s.nan || s.openHi || s.lo.compare(s.hi) != 0 {
			return true
		}
		for _, v := range l.literals {
			if v.exact() && lo(v.lo) == 0 {
				return false
			}
		}
		return true
	case leafLt:
		c := 0
		if s.hasLo {
			c = lo(v.hi)
		}
		return !s.hasLo || c < 0 || c == 0 && !v.exact()
	case leafLe:
		return !s.hasLo || lo(v.hi) <= 0
	case leafGt:
		if !s.hasHi || s.nan {
			return true
		}
		c := hi(v.lo)
		return c > 0 || c == 0 && !v.exact()
	case leafGe:
		return !s.hasHi || s.nan || hi(v.lo) >= 0
	case leafPrefix:
		p := v.lo.b
		if s.hasLo && lo(v.lo) > 0 && !bytes.HasPrefix(s.lo.b, p) {
			return false
		}
		return !s.hasHi || hi(v.lo) >= 0
	case leafNotPrefix:
		p := v.lo.b
		return !(s.hasLo && s.hasHi && bytes.HasPrefix(s.lo.b, p) && bytes.HasPrefix(s.hi.b, p))
	}
	return true
}

// statsSpan is the evidence of column statistics.
func statsSpan(e *fileEntry, f *iceberg.NestedField) (span, bool) {
	b := e.bounds(f.ID)
	if b == nil || kindOf(f.Type) == noDatum {
		return span{}, false
	}
	s := span{nan: kindOf(f.Type) == floatDatum && b.nans != 0}
	switch {
	case b.nulls == 0:
		s.nulls = -1
	case b.nulls > 0 && b.nulls >= e.rows && b.nulls == b.values:
		s.nulls = 1
	}
	s.lo, s.hasLo = boundDatum(f.Type, b.lower)
	s.hi, s.hasHi = boundDatum(f.Type, b.upper)
	// Upper bounds of text are cut after 16 characters and rounded up. Not every writer rounds.
	s.openHi = s.hi.kind == bytesDatum && len(s.hi.b) >= 16
	return s, true
}

// partitionTest turns values of one partition field into spans of its source column.
type partitionTest struct {
	field     iceberg.PartitionField
	at        int // position in the spec
	transform string
	width     int // of bucket and truncate
	source    iceberg.Type
	result    iceberg.Type
}

// partitionTests lists the fields of a spec that say something about a column.
func partitionTests(spec *iceberg.PartitionSpec, f *iceberg.NestedField) []partitionTest {
	if spec == nil || kindOf(f.Type) == noDatum {
		return nil
	}
	var out []partitionTest
	at := -1
	for _, pf := range spec.Fields() {
		at++
		if len(pf.SourceIDs) != 1 || pf.SourceID() != f.ID {
			continue
		}
		t := partitionTest{field: pf, at: at, source: f.Type, result: pf.Transform.ResultType(f.Type)}
		name := pf.Transform.String()
		if i := strings.IndexByte(name, '['); i > 0 {
			t.width, _ = strconv.Atoi(strings.TrimSuffix(name[i+1:], "]"))
			name = name[:i]
		}
		t.transform = name
		switch name {
		case "identity", "year", "month", "day", "hour":
		case "bucket", "truncate":
			if t.width <= 0 {
				continue
			}
		default:
			continue
		}
		out = append(out, t)
	}
	return out
}

// span is what partition values between lower and upper say about the source column.
func (t *partitionTest) span(lower, upper datum, hasLower, hasUpper bool) span {
	s := span{}
	switch t.transform {
	case "identity":
		s.lo, s.hi, s.hasLo, s.hasHi = lower, upper, hasLower, hasUpper
		if t.result != nil && kindOf(t.result) == floatDatum && (hasLower && math.IsNaN(lower.f) || hasUpper && math.IsNaN(upper.f)) {
			return span{}
		}
	case "truncate":
		s.lo, s.hi, s.hasLo, s.hasHi = lower, upper, hasLower, hasUpper
		switch upper.kind {
		case intDatum:
			s.hi.i += int64(t.width) - 1
			s.hasHi = hasUpper && s.hi.i >= upper.i
			// The least numbers of a type have no multiple below them: what writers compute for them wraps to the greatest.
			w := int64(t.width)
			s.hasLo = hasLower && hasUpper && upper.i <= math.MaxInt64-w && !(upper.i > math.MaxInt32-w && upper.i <= math.MaxInt32)
		case decimalDatum:
			s.hasHi = false // unscaled widths are rare enough to leave the upper end open
		case bytesDatum:
			_, text := t.source.(iceberg.StringType)
			s.openHi = text && utf8.RuneCount(upper.b) >= t.width || !text && len(upper.b) >= t.width
		}
	case "year", "month", "day", "hour":
		// Old writers rounded times before 1970 towards zero, so a period at or before 0 may hold rows of the one before.
		if hasLower {
			p := lower.i
			if _, day := t.source.(iceberg.DateType); p <= 0 && !(day && t.transform == "day") {
				p--
			}
			s.lo.kind = intDatum
			s.lo.i, s.hasLo = periodStart(t.transform, p, t.source)
		}
		if hasUpper {
			s.hi.kind = intDatum
			s.hi.i, s.hasHi = periodStart(t.transform, upper.i+1, t.source)
			s.hi.i--
		}
	}
	return s
}

// periodStart is the first value of a column's type in a period counted from 1970.
func periodStart(transform string, p int64, source iceberg.Type) (int64, bool) {
	if p > 1<<40 || p < -(1<<40) {
		return 0, false
	}
	var sec int64
	switch transform {
	case "hour":
		sec = p * 3600
	case "day":
		sec = p * 86400
	case "month":
		if p > 1_000_000 || p < -1_000_000 {
			return 0, false
		}
		sec = time.Date(1970, time.Month(1+p), 1, 0, 0, 0, 0, time.UTC).Unix()
	case "year":
		if p > 100_000 || p < -100_000 {
			return 0, false
		}
		sec = time.Date(1970+int(p), 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	}
	unit := int64(1_000_000)
	switch source.(type) {
	case iceberg.DateType:
		return sec / 86400, sec%86400 == 0
	case iceberg.TimestampType, iceberg.TimestampTzType:
	case iceberg.TimestampNsType, iceberg.TimestampTzNsType:
		unit = 1_000_000_000
	default:
		return 0, false
	}
	if v := sec * unit; v/unit == sec {
		return v, true
	}
	return 0, false
}

// bucketMay tells whether a leaf may be true for rows of the buckets lo to hi.
func (t *partitionTest) bucketMay(l *leaf, lo, hi int64) bool {
	if l.op != leafIn {
		return true
	}
	for _, v := range l.literals {
		lit, ok := sourceLiteral(v, t.source)
		if !ok {
			return true
		}
		b := t.field.Transform.Apply(iceberg.Optional[iceberg.Literal]{Val: lit, Valid: true})
		n, isInt := int32(0), false
		if b.Valid {
			n, isInt = b.Val.Any().(int32)
		}
		if !isInt || int64(n) >= lo && int64(n) <= hi {
			return true
		}
	}
	return false
}

// sourceLiteral gives an exact constant the Go type that iceberg-go's transforms take.
func sourceLiteral(v literalRange, t iceberg.Type) (iceberg.Literal, bool) {
	if !v.exact() {
		return nil, false
	}
	switch t := t.(type) {
	case iceberg.Int32Type, iceberg.Int64Type: // both widths hash alike
		return iceberg.NewLiteral(v.lo.i), true
	case iceberg.DateType:
		return iceberg.NewLiteral(iceberg.Date(v.lo.i)), v.lo.i == int64(int32(v.lo.i))
	case iceberg.TimeType:
		return iceberg.NewLiteral(iceberg.Time(v.lo.i)), true
	case iceberg.TimestampType, iceberg.TimestampTzType:
		return iceberg.NewLiteral(iceberg.Timestamp(v.lo.i)), true
	case iceberg.StringType:
		return iceberg.NewLiteral(string(v.lo.b)), true
	case iceberg.BinaryType, iceberg.FixedType:
		return iceberg.NewLiteral(v.lo.b), true
	case iceberg.UUIDType:
		if len(v.lo.b) == 16 {
			return iceberg.NewLiteral(uuid.UUID(v.lo.b)), true
		}
	case iceberg.DecimalType:
		return iceberg.NewLiteral(iceberg.Decimal{Val: v.lo.d, Scale: t.Scale()}), true
	}
	return nil, false
}

// pruner evaluates one bound filter over the files of a plan.
type pruner struct {
	filter *filterNode
	specs  map[int]*iceberg.PartitionSpec
	tests  map[testKey][]partitionTest
}

type testKey struct{ spec, field int }

func (p *pruner) testsOf(specID int, f *iceberg.NestedField) []partitionTest {
	k := testKey{specID, f.ID}
	t, ok := p.tests[k]
	if !ok {
		t = partitionTests(p.specs[specID], f)
		p.tests[k] = t
	}
	return t
}

// manifest tells whether files of a manifest may match (V1).
func (p *pruner) manifest(m *manifestRef) bool {
	return p.filter.may(func(l *leaf) bool {
		for _, t := range p.testsOf(m.specID, &l.field) {
			if t.at >= len(m.summaries) {
				continue
			}
			sum := &m.summaries[t.at]
			lo, hasLo := boundDatum(t.result, sum.lower)
			hi, hasHi := boundDatum(t.result, sum.upper)
			isFloat := kindOf(t.result) == floatDatum
			if t.transform == "bucket" {
				if hasLo && hasHi && !t.bucketMay(l, lo.i, hi.i) {
					return false
				}
				hasLo, hasHi = false, false
			}
			s := t.span(lo, hi, hasLo, hasHi)
			s.nan = s.nan || isFloat && sum.hasNaN != 0
			s.openHi = s.openHi || hi.kind == bytesDatum && len(hi.b) >= 16
			if !sum.hasNull {
				s.nulls = -1
			} else if sum.lower == nil && sum.upper == nil && (!isFloat || sum.hasNaN == 0) {
				s.nulls = 1
			}
			if !s.allows(l) {
				return false
			}
		}
		return true
	})
}

// partition tells whether rows of a file may match by its partition tuple (V2).
func (p *pruner) partition(e *fileEntry) bool {
	return p.filter.may(func(l *leaf) bool {
		tests := p.testsOf(e.specID, &l.field)
		for i := range tests {
			t := &tests[i]
			v, ok := e.partitionValue(t.field.FieldID)
			if !ok {
				continue
			}
			d, null, ok := tupleDatum(v, t.result)
			switch {
			case !ok:
				continue
			case null:
				if s := (span{nulls: 1}); !s.allows(l) {
					return false
				}
				continue
			case t.transform == "bucket":
				if l.op == leafNull || !t.bucketMay(l, d.i, d.i) {
					return false
				}
				continue
			}
			s := t.span(d, d, true, true)
			s.nulls = -1
			if !s.allows(l) {
				return false
			}
		}
		return true
	})
}

// stats tells whether rows of a file may match by its column statistics (V3).
func (p *pruner) stats(e *fileEntry) bool {
	return p.filter.may(func(l *leaf) bool {
		s, ok := statsSpan(e, &l.field)
		return !ok || s.allows(l)
	})
}
