package lake

import (
	"github.com/apache/iceberg-go"

	"github.com/overlakedb/overlake/internal/predicate"
)

// KeyKind says how the values of a column become keys; NoKeys when there is no such column, or it has none.
func (t *Table) KeyKind(field int) predicate.KeyKind {
	for _, s := range t.meta.Schemas() {
		if f, ok := s.FindFieldByID(field); ok {
			return keyKind(f.Type)
		}
	}
	return predicate.NoKeys
}

func keyKind(t iceberg.Type) predicate.KeyKind {
	return [...]predicate.KeyKind{noDatum: predicate.NoKeys, intDatum: predicate.Ints, floatDatum: predicate.Floats, decimalDatum: predicate.Decimals,
		bytesDatum: predicate.Bytes}[kindOf(t)]
}

// Bind gives a filter the form that indexes answer, with the columns and types of the schema that the ref reads by.
func (t *Table) Bind(ref Ref, filter predicate.Expr) (*predicate.Bound, error) {
	schema, err := t.schemaAt(ref)
	if err != nil || filter == nil {
		return &predicate.Bound{}, err
	}
	return bindFilter(filter, schema, false).bound().Simplify(), nil
}

func (n *filterNode) bound() *predicate.Bound {
	switch n.kind {
	case nodeNone:
		// No row at all: a leaf of no keys, of a column that does not matter.
		return &predicate.Bound{Op: predicate.BoundLeaf, Field: -1, Exact: true}
	case nodeAnd, nodeOr:
		b := &predicate.Bound{Op: predicate.BoundAnd}
		if n.kind == nodeOr {
			b.Op = predicate.BoundOr
		}
		for _, k := range n.kids {
			b.Kids = append(b.Kids, k.bound())
		}
		return b
	case nodeLeaf:
		return n.leaf.bound()
	}
	return &predicate.Bound{}
}

// bound gives the keys for which a leaf may be true. Where the engine may round a constant, they are more than those for
// which it is.
func (l *leaf) bound() *predicate.Bound {
	b := &predicate.Bound{Op: predicate.BoundLeaf, Field: l.field.ID, Kind: keyKind(l.field.Type), Exact: true}
	if b.Kind == predicate.NoKeys && l.op != leafNull && l.op != leafNotNull {
		return &predicate.Bound{}
	}
	all := predicate.Ranges{{NoHi: true}}
	var lo, hi []byte
	if len(l.literals) > 0 {
		v := &l.literals[0]
		lo, hi = v.lo.key(), v.hi.key()
		b.Exact = v.exact()
	}
	switch l.op {
	case leafNull:
		b.Null = true
	case leafNotNull:
		b.Keys = all
	case leafIn, leafNotIn:
		list := make([]predicate.Range, 0, len(l.literals))
		for i := range l.literals {
			v := &l.literals[i]
			switch {
			case v.exact():
				list = append(list, predicate.Point(v.lo.key()))
			case l.op == leafIn:
				b.Exact = false
				list = append(list, predicate.Range{Lo: v.lo.key(), Hi: v.hi.key()})
			default: // all that is known of a value not equal to about this
				b.Exact = false
			}
		}
		b.Keys = predicate.RangesOf(list...)
		if l.op == leafNotIn {
			b.Keys = b.Keys.Complement()
		}
	case leafLt:
		b.Keys = predicate.RangesOf(predicate.Range{Hi: hi, HiOpen: b.Exact})
	case leafLe:
		b.Keys = predicate.RangesOf(predicate.Range{Hi: hi})
	case leafGt:
		b.Keys = predicate.RangesOf(predicate.Range{Lo: lo, LoOpen: b.Exact, NoHi: true})
	case leafGe:
		b.Keys = predicate.RangesOf(predicate.Range{Lo: lo, NoHi: true})
	case leafPrefix:
		b.Keys = predicate.RangesOf(predicate.PrefixRange(lo))
	case leafNotPrefix:
		b.Keys = predicate.RangesOf(predicate.PrefixRange(lo)).Complement()
	}
	return b
}

// key gives a datum as a key.
func (d datum) key() []byte {
	switch d.kind {
	case intDatum:
		return predicate.AppendInt(nil, d.i)
	case floatDatum:
		return predicate.AppendFloat(nil, d.f)
	case decimalDatum:
		return predicate.AppendDecimal(nil, d.d)
	}
	return d.b
}
