package lake

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/iceberg-go"

	"github.com/overlakedb/overlake/internal/predicate"
)

// A Bound keeps a value when, and if it is exact only when, pruning would keep a file of just that value.
func TestBoundAgreesWithPruning(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 3))
	fields := []iceberg.NestedField{
		{ID: 1, Name: "i", Type: iceberg.PrimitiveTypes.Int64},
		{ID: 2, Name: "f", Type: iceberg.PrimitiveTypes.Float64},
		{ID: 3, Name: "d", Type: iceberg.DecimalTypeOf(9, 1)},
		{ID: 4, Name: "s", Type: iceberg.PrimitiveTypes.String},
		{ID: 5, Name: "b", Type: iceberg.PrimitiveTypes.Bool},
		{ID: 6, Name: "g", Type: iceberg.PrimitiveTypes.Float32},
	}
	schema := iceberg.NewSchema(0, fields...)
	texts := []string{"", "a", "ab", "abc", "b", "\x00", "zz", "\U0010ffff", "ab\x00"}
	value := func(field int) datum {
		switch field {
		case 1, 5:
			n := int64(6)
			if field == 5 {
				n = 2
			}
			return datum{kind: intDatum, i: rng.Int64N(n)}
		case 2, 6:
			if rng.IntN(9) == 0 {
				return datum{kind: floatDatum, f: math.NaN()}
			}
			return datum{kind: floatDatum, f: float64(rng.IntN(12)-6) / 2}
		case 3:
			return datum{kind: decimalDatum, d: decimal128.FromI64(rng.Int64N(60) - 30)}
		}
		return datum{kind: bytesDatum, b: []byte(texts[rng.IntN(len(texts))])}
	}
	constant := func(field int) predicate.Value {
		switch field {
		case 1, 2, 3, 6:
			switch rng.IntN(3) {
			case 0:
				return int64(rng.IntN(8) - 2)
			case 1:
				return predicate.Typed{Type: "decimal", Text: fmt.Sprint(float64(rng.IntN(20)-6) / 4)}
			}
			return float64(rng.IntN(20)-6) / 2
		case 5:
			return rng.IntN(2) == 0
		}
		return texts[rng.IntN(len(texts))]
	}
	var leafOf func(depth int) predicate.Expr
	leafOf = func(depth int) predicate.Expr {
		f := fields[rng.IntN(len(fields))]
		k := rng.IntN(10)
		if depth == 0 && k > 6 {
			k -= 5
		}
		switch k {
		case 0:
			return predicate.IsNull{Column: f.Name}
		case 1:
			return predicate.StartsWith{Column: "s", Prefix: texts[rng.IntN(len(texts))]}
		case 2, 3:
			in := predicate.In{Column: f.Name}
			for range rng.IntN(5) + 1 {
				in.Values = append(in.Values, constant(f.ID))
			}
			return in
		case 4, 5, 6:
			return predicate.Compare{Column: f.Name, Op: predicate.Op(rng.IntN(6)), Value: constant(f.ID)}
		case 7:
			return predicate.And{leafOf(depth - 1), leafOf(depth - 1)}
		case 8:
			return predicate.Or{leafOf(depth - 1), leafOf(depth - 1)}
		}
		return predicate.Not{X: leafOf(depth - 1)}
	}
	kept, exact := 0, 0
	for range 30_000 {
		e := leafOf(3)
		n := bindFilter(e, schema, false)
		b := n.bound()
		if rng.IntN(2) == 0 {
			b = b.Simplify()
		}
		row := map[int]*span{}
		key := map[int][]byte{}
		for _, f := range fields {
			if rng.IntN(5) == 0 {
				row[f.ID] = &span{nulls: 1}
				continue
			}
			d := value(f.ID)
			if f.ID == 6 {
				d.f = float64(float32(d.f))
			}
			s := &span{nulls: -1, lo: d, hi: d, hasLo: true, hasHi: true}
			if d.kind == floatDatum && math.IsNaN(d.f) {
				*s = span{nulls: -1, nan: true, lo: datum{kind: floatDatum, f: math.Inf(1)}, hasLo: true}
			}
			row[f.ID], key[f.ID] = s, d.key()
		}
		want := n.may(func(l *leaf) bool {
			s := row[l.field.ID]
			if s.nan { // pruning is generous about NaN
				switch l.op {
				case leafGt, leafGe, leafNotIn, leafNotNull:
					return true
				}
				return false
			}
			return s.allows(l)
		})
		var may func(b *predicate.Bound) bool
		may = func(b *predicate.Bound) bool {
			switch b.Op {
			case predicate.BoundAnd:
				for _, k := range b.Kids {
					if !may(k) {
						return false
					}
				}
			case predicate.BoundOr:
				for _, k := range b.Kids {
					if may(k) {
						return true
					}
				}
				return false
			case predicate.BoundLeaf:
				k, ok := key[b.Field]
				if !ok {
					return b.Null
				}
				return b.Keys.Contains(k)
			}
			return true
		}
		got := may(b)
		if want && !got {
			t.Fatalf("%v: the bound drops a row that pruning keeps: %v", e, row)
		}
		if b.IsExact() {
			exact++
			if got && !want {
				t.Fatalf("%v: the bound is exact and keeps a row that pruning drops: %v", e, row)
			}
		}
		if got {
			kept++
		}
	}
	if kept < 3000 || exact < 10_000 {
		t.Errorf("only %d rows kept, %d bounds exact", kept, exact)
	}
}
