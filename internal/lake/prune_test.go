package lake_test

import (
	"bytes"
	"cmp"
	"encoding"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/iceberg-go"
	"github.com/google/uuid"

	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/objstore"
	"github.com/overlakedb/overlake/internal/predicate"
)

// pruneColumn is a column of the pruning model: how to make a value, and how SQL orders and spells it.
type pruneColumn struct {
	typ        iceberg.Type
	random     func(r *rand.Rand) iceberg.Literal
	constant   func(l iceberg.Literal) predicate.Value
	transforms []iceberg.Transform
}

func at(l iceberg.Literal, layout string) string {
	switch v := l.Any().(type) {
	case iceberg.Date:
		return time.Unix(int64(v)*86400, 0).UTC().Format(layout)
	case iceberg.Timestamp:
		return time.UnixMicro(int64(v)).UTC().Format(layout)
	case iceberg.TimestampNano:
		return time.Unix(0, int64(v)).UTC().Format(layout)
	}
	panic("not a time")
}

var pruneColumns = []pruneColumn{
	{iceberg.PrimitiveTypes.Int32, func(r *rand.Rand) iceberg.Literal { return iceberg.NewLiteral(r.Int32N(60) - 30) },
		func(l iceberg.Literal) predicate.Value { return int64(l.Any().(int32)) },
		[]iceberg.Transform{iceberg.IdentityTransform{}, iceberg.BucketTransform{NumBuckets: 3}, iceberg.TruncateTransform{Width: 7}, iceberg.VoidTransform{}}},
	{iceberg.PrimitiveTypes.Int64, func(r *rand.Rand) iceberg.Literal { return iceberg.NewLiteral(r.Int64N(60) - 30) },
		func(l iceberg.Literal) predicate.Value {
			return predicate.Typed{Type: "decimal", Text: fmt.Sprint(l.Any(), ".0")}
		},
		[]iceberg.Transform{iceberg.IdentityTransform{}, iceberg.BucketTransform{NumBuckets: 3}, iceberg.TruncateTransform{Width: 10}}},
	{iceberg.PrimitiveTypes.Float32, func(r *rand.Rand) iceberg.Literal {
		if r.IntN(8) == 0 {
			return iceberg.NewLiteral(float32(math.NaN()))
		}
		return iceberg.NewLiteral(float32(r.IntN(40)-20) / 10)
	}, func(l iceberg.Literal) predicate.Value {
		return predicate.Typed{Type: "decimal", Text: fmt.Sprint(l.Any())}
	},
		[]iceberg.Transform{iceberg.IdentityTransform{}, iceberg.VoidTransform{}}},
	{iceberg.PrimitiveTypes.Float64, func(r *rand.Rand) iceberg.Literal {
		if r.IntN(8) == 0 {
			return iceberg.NewLiteral(math.NaN())
		}
		return iceberg.NewLiteral(float64(r.IntN(40)-20) / 10)
	}, func(l iceberg.Literal) predicate.Value { return l.Any().(float64) },
		[]iceberg.Transform{iceberg.IdentityTransform{}, iceberg.VoidTransform{}}},
	{iceberg.DecimalTypeOf(9, 2), func(r *rand.Rand) iceberg.Literal {
		return iceberg.NewLiteral(iceberg.Decimal{Val: decimal128.FromI64(r.Int64N(400) - 200), Scale: 2})
	}, func(l iceberg.Literal) predicate.Value {
		d := l.Any().(iceberg.Decimal)
		return predicate.Typed{Type: "decimal", Text: d.Val.ToString(2)}
	}, []iceberg.Transform{iceberg.IdentityTransform{}, iceberg.BucketTransform{NumBuckets: 3}, iceberg.TruncateTransform{Width: 50}}},
	{iceberg.PrimitiveTypes.Date, func(r *rand.Rand) iceberg.Literal { return iceberg.NewLiteral(iceberg.Date(r.Int32N(1600) - 800)) },
		func(l iceberg.Literal) predicate.Value {
			return predicate.Typed{Type: "date", Text: at(l, "2006-01-02")}
		},
		[]iceberg.Transform{iceberg.IdentityTransform{}, iceberg.YearTransform{}, iceberg.MonthTransform{}, iceberg.DayTransform{}, iceberg.BucketTransform{NumBuckets: 3}}},
	{iceberg.PrimitiveTypes.Timestamp, func(r *rand.Rand) iceberg.Literal {
		return iceberg.NewLiteral(iceberg.Timestamp((r.Int64N(1600) - 800) * 6 * 3600_000_000 / 4))
	}, func(l iceberg.Literal) predicate.Value {
		return predicate.Typed{Type: "timestamp", Text: at(l, "2006-01-02 15:04:05.999999")}
	}, []iceberg.Transform{iceberg.IdentityTransform{}, iceberg.YearTransform{}, iceberg.MonthTransform{}, iceberg.DayTransform{}, iceberg.HourTransform{}}},
	{iceberg.PrimitiveTypes.TimestampTz, func(r *rand.Rand) iceberg.Literal {
		return iceberg.NewLiteral(iceberg.Timestamp((r.Int64N(1600) - 800) * 6 * 3600_000_000 / 4))
	}, func(l iceberg.Literal) predicate.Value {
		return predicate.Typed{Type: "timestamptz", Text: at(l, "2006-01-02T15:04:05.999999Z07:00")}
	}, []iceberg.Transform{iceberg.DayTransform{}, iceberg.HourTransform{}}},
	{iceberg.PrimitiveTypes.String, func(r *rand.Rand) iceberg.Literal {
		words := []string{"", "a", "ab", "abc", "abcdefghijklmnop", "abcdefghijklmnopq", "abcdefghijklmnoq", "b", "ä", "äöü", "\U0010ffff"}
		return iceberg.NewLiteral(words[r.IntN(len(words))])
	}, func(l iceberg.Literal) predicate.Value { return l.Any().(string) },
		[]iceberg.Transform{iceberg.IdentityTransform{}, iceberg.BucketTransform{NumBuckets: 3}, iceberg.TruncateTransform{Width: 2}}},
	{iceberg.PrimitiveTypes.Binary, func(r *rand.Rand) iceberg.Literal {
		return iceberg.NewLiteral(bytes.Repeat([]byte{byte(r.IntN(3)) * 127}, r.IntN(4)))
	}, func(l iceberg.Literal) predicate.Value { return l.Any().([]byte) },
		[]iceberg.Transform{iceberg.IdentityTransform{}, iceberg.TruncateTransform{Width: 2}}},
	{iceberg.PrimitiveTypes.UUID, func(r *rand.Rand) iceberg.Literal {
		return iceberg.NewLiteral(uuid.UUID{byte(r.IntN(4) * 70), byte(r.IntN(2))})
	}, func(l iceberg.Literal) predicate.Value {
		return predicate.Typed{Type: "uuid", Text: fmt.Sprint(l.Any())}
	},
		[]iceberg.Transform{iceberg.IdentityTransform{}, iceberg.BucketTransform{NumBuckets: 3}}},
	{iceberg.PrimitiveTypes.Bool, func(r *rand.Rand) iceberg.Literal { return iceberg.NewLiteral(r.IntN(2) == 0) },
		func(l iceberg.Literal) predicate.Value { return l.Any().(bool) }, []iceberg.Transform{iceberg.IdentityTransform{}}},
}

// order compares two values as SQL does: NaN equals NaN and is above everything.
func order(a, b iceberg.Literal) int {
	switch x := a.Any().(type) {
	case int32:
		return cmp.Compare(x, b.Any().(int32))
	case int64:
		return cmp.Compare(x, b.Any().(int64))
	case float32:
		return orderFloat(float64(x), float64(b.Any().(float32)))
	case float64:
		return orderFloat(x, b.Any().(float64))
	case iceberg.Date:
		return cmp.Compare(x, b.Any().(iceberg.Date))
	case iceberg.Timestamp:
		return cmp.Compare(x, b.Any().(iceberg.Timestamp))
	case iceberg.Decimal:
		return x.Val.Cmp(b.Any().(iceberg.Decimal).Val)
	case string:
		return strings.Compare(x, b.Any().(string))
	case []byte:
		return bytes.Compare(x, b.Any().([]byte))
	case uuid.UUID:
		y := b.Any().(uuid.UUID)
		return bytes.Compare(x[:], y[:])
	case bool:
		return cmp.Compare(fmt.Sprint(x), fmt.Sprint(b.Any()))
	}
	panic(fmt.Sprintf("%T", a.Any()))
}

func orderFloat(a, b float64) int {
	switch {
	case math.IsNaN(a) && math.IsNaN(b):
		return 0
	case math.IsNaN(a):
		return 1
	case math.IsNaN(b):
		return -1
	}
	return cmp.Compare(a, b)
}

func isNaN(l iceberg.Literal) bool {
	switch x := l.Any().(type) {
	case float32:
		return x != x
	case float64:
		return x != x
	}
	return false
}

func serial(t testing.TB, l iceberg.Literal) []byte {
	b, err := l.(encoding.BinaryMarshaler).MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// condition is a random filter with its meaning: 1 true, 0 false, -1 NULL.
type condition struct {
	expr predicate.Expr
	eval func(v iceberg.Literal) int
}

func (c pruneColumn) condition(r *rand.Rand, depth int) condition {
	truth := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	if depth > 0 && r.IntN(2) == 0 {
		a, b := c.condition(r, depth-1), c.condition(r, depth-1)
		switch r.IntN(3) {
		case 0:
			return condition{predicate.And{a.expr, b.expr}, func(v iceberg.Literal) int {
				x, y := a.eval(v), b.eval(v)
				if x == 0 || y == 0 {
					return 0
				}
				return min(x, y)
			}}
		case 1:
			return condition{predicate.Or{a.expr, b.expr}, func(v iceberg.Literal) int {
				x, y := a.eval(v), b.eval(v)
				if x == 1 || y == 1 {
					return 1
				}
				return min(x, y)
			}}
		}
		return condition{predicate.Not{X: a.expr}, func(v iceberg.Literal) int {
			if x := a.eval(v); x >= 0 {
				return 1 - x
			}
			return -1
		}}
	}
	lit := c.random(r)
	for isNaN(lit) {
		lit = c.random(r)
	}
	null := func(f func(v iceberg.Literal) int) func(v iceberg.Literal) int {
		return func(v iceberg.Literal) int {
			if v == nil {
				return -1
			}
			return f(v)
		}
	}
	switch r.IntN(5) {
	case 0:
		return condition{predicate.IsNull{Column: "c"}, func(v iceberg.Literal) int { return truth(v == nil) }}
	case 1:
		other := c.random(r)
		for isNaN(other) {
			other = c.random(r)
		}
		return condition{predicate.In{Column: "c", Values: []predicate.Value{c.constant(lit), c.constant(other)}},
			null(func(v iceberg.Literal) int { return truth(order(v, lit) == 0 || order(v, other) == 0) })}
	case 2:
		if s, ok := lit.Any().(string); ok {
			return condition{predicate.StartsWith{Column: "c", Prefix: s}, null(func(v iceberg.Literal) int { return truth(strings.HasPrefix(v.Any().(string), s)) })}
		}
	}
	op := predicate.Op(r.IntN(6))
	return condition{predicate.Compare{Column: "C", Op: op, Value: c.constant(lit)}, null(func(v iceberg.Literal) int {
		o := order(v, lit)
		return truth([...]bool{o == 0, o != 0, o < 0, o <= 0, o > 0, o >= 0}[op])
	})}
}

// TestPruningAgainstAModel makes random tables of every type and transform, with statistics as writers leave them, and
// random filters: a file that holds a matching row must stay, and over all filters many files must go.
func TestPruningAgainstAModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for _, col := range pruneColumns {
		for _, transform := range col.transforms {
			schema := iceberg.NewSchema(0, iceberg.NestedField{ID: 5, Name: "c", Type: col.typ})
			spec := iceberg.NewPartitionSpecID(0, iceberg.PartitionField{SourceIDs: []int{5}, FieldID: 1000, Name: "p", Transform: transform})
			f := forgery{schemas: []*iceberg.Schema{schema}, specs: []iceberg.PartitionSpec{spec}, perFile: r.IntN(2) == 0, version: 1 + r.IntN(2)}
			var held [][]iceberg.Literal
			for n := range 20 {
				rows, file := col.file(t, r, transform)
				file.path = fmt.Sprintf("%02d.parquet", n)
				if f.version == 1 {
					file.sequence = 0
				}
				held = append(held, rows)
				f.files = append(f.files, file)
			}
			tbl := f.mount(t, objstore.NewMemory("t"))
			gone := 0
			for range 60 {
				c := col.condition(r, 2)
				plan, err := tbl.Plan(t.Context(), lake.Ref{}, c.expr)
				if err != nil {
					t.Fatal(err)
				}
				if plan.Total != len(held) || plan.Total != len(plan.Files)+plan.PrunedByPartition+plan.PrunedByStats {
					t.Fatalf("%v: the counts do not add up: %+v", c.expr, plan)
				}
				gone += plan.Total - len(plan.Files)
				kept := map[string]bool{}
				for _, f := range plan.Files {
					kept[f.Name] = true
				}
				for n, rows := range held {
					for _, v := range rows {
						if !kept[f.files[n].path] && c.eval(v) == 1 {
							t.Fatalf("%v %v: %v lost %v in %+v", col.typ, transform, c.expr, v, f.files[n])
						}
					}
				}
			}
			if gone == 0 {
				t.Errorf("%v %v: nothing was ever pruned", col.typ, transform)
			}
		}
	}
}

// file makes the rows of one partition and what a manifest says about them.
func (c pruneColumn) file(t testing.TB, r *rand.Rand, transform iceberg.Transform) ([]iceberg.Literal, forgedFile) {
	f := forgedFile{sequence: 1, partition: map[int]any{1000: nil}}
	var rows []iceberg.Literal
	key := "none"
	for tries := 0; tries < 200 && len(rows) < 1+r.IntN(6); tries++ {
		var v iceberg.Literal
		if r.IntN(5) > 0 {
			v = c.random(r)
		}
		p := iceberg.Optional[iceberg.Literal]{}
		if v != nil {
			p = transform.Apply(iceberg.Optional[iceberg.Literal]{Val: v, Valid: true})
		}
		k := "NULL"
		if p.Valid {
			k = p.Val.String()
		}
		if key == "none" {
			key = k
			if p.Valid {
				f.partition[1000] = p.Val.Any()
			}
		}
		if k == key {
			rows = append(rows, v)
		}
	}
	f.rows = int64(len(rows))
	if r.IntN(4) == 0 {
		return rows, f // no statistics at all
	}
	var lo, hi iceberg.Literal
	nulls, nans := int64(0), int64(0)
	for _, v := range rows {
		switch {
		case v == nil:
			nulls++
		case isNaN(v):
			nans++
		default:
			if lo == nil || order(v, lo) < 0 {
				lo = v
			}
			if hi == nil || order(v, hi) > 0 {
				hi = v
			}
		}
	}
	f.values, f.nulls = map[int]int64{5: f.rows}, map[int]int64{5: nulls}
	if r.IntN(2) == 0 {
		f.nans = map[int]int64{5: nans}
	}
	if lo != nil {
		f.lower, f.upper = map[int][]byte{5: serial(t, lo)}, map[int][]byte{5: serial(t, hi)}
		if s, ok := hi.Any().(string); ok { // as careless writers do: cut, not rounded up
			f.upper[5] = []byte(cut(s))
			f.lower[5] = []byte(cut(lo.Any().(string)))
		}
	}
	return rows, f
}

func cut(s string) string {
	if r := []rune(s); len(r) > 16 {
		return string(r[:16])
	}
	return s
}
