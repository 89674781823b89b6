package coltype

import (
	"errors"
	"slices"
	"strings"

	"github.com/overlakedb/overlake/internal/engine"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/pgvector"
)

// The types of pgvector, as the engine knows them: vector and halfvec are lists of FLOAT, sparsevec is bytes that sort as
// its values do, bit is the engine's own. Package pgvector says what they mean; this file, sparsevec.go and bits.go register
// it.
//
// An operator or a function of two values is registered for two values of its type, for one of them and text (a query is
// usually one constant text: it is parsed once a batch, not once a row), and for the types that pgvector converts unasked.

const (
	// NegativeDot stands in the engine for <#>, which its grammar does not know.
	NegativeDot = "<!>"
	// FloatsFunction makes a list of FLOAT of a vector: a cast between the two would keep the vector's type.
	FloatsFunction = "overlake_floats"
)

// CastFunction is what a cast to a type becomes: the engine drops casts between types that are one but for their names, and
// converts lists of numbers without a check.
func CastFunction(typ string) string { return "overlake_" + typ }

// AssignFunction makes of a value one of a column of the type.
func AssignFunction(typ string) string { return "overlake_assign_" + typ }

// registrar collects what could not be registered.
type registrar struct {
	db  *engine.DB
	err error
}

func (r *registrar) scalar(name string, args []engine.Type, returns engine.Type, start func() engine.Row) {
	r.err = errors.Join(r.err, r.db.RegisterScalar(engine.Scalar{Name: name, Args: args, Returns: returns, Start: start}))
}

// row registers a function that keeps nothing from row to row.
func (r *registrar) row(name string, args []engine.Type, returns engine.Type, f engine.Row) {
	r.err = errors.Join(r.err, r.db.RegisterScalar(engine.Scalar{Name: name, Args: args, Returns: returns, Row: f}))
}

func (r *registrar) cast(from, to engine.Type, cost int64, f func(i int, in *engine.Column, out *engine.Output) error) {
	r.err = errors.Join(r.err, r.db.RegisterCast(engine.Cast{From: from, To: to, Cost: cost, Row: f}))
}

// Register teaches an engine pgvector's casts, operators and functions.
func Register(db *engine.DB) error {
	r := &registrar{db: db}
	r.dense(denseType{pgvector.Vector, engine.Vector})
	r.dense(denseType{pgvector.Halfvec, engine.Halfvec})
	r.halfvecAggregates()
	r.sparse()
	r.bits()
	// What comes out of a cast to FLOAT[] that was one.
	r.row(FloatsFunction, []engine.Type{engine.FloatList}, engine.FloatList, func(i int, a []engine.Column, out *engine.Output) error {
		out.List(i, &a[0])
		return nil
	})
	return r.err
}

// argument reads an argument of a call as a value of a type. What it gives is good until it is called again.
type argument[T any] func(a *engine.Column, i int) (T, error)

// kind is a type whose values have distances.
type kind[T any] struct {
	name  string // functions that begin with it and _ are of this type alone, so two texts will do for them
	pairs [][2]engine.Type
	open  func(from engine.Type) argument[T]
	same  func(a, b T) error
}

// measure registers a distance under its names.
func measure[T any](r *registrar, k kind[T], f func(a, b T) float64, names ...string) {
	for _, name := range names {
		binary(r, k, name, engine.Float64, func(i int, a, b T, out *engine.Output) error {
			if err := k.same(a, b); err != nil {
				return err
			}
			out.Float64(i, f(a, b))
			return nil
		})
	}
}

// binary registers a function of two values for all pairs of a type.
func binary[T any](r *registrar, k kind[T], name string, returns engine.Type, f func(i int, a, b T, out *engine.Output) error) {
	pairs := k.pairs
	if strings.HasPrefix(name, k.name+"_") {
		pairs = append(slices.Clip(pairs), [2]engine.Type{engine.Text, engine.Text})
	}
	for _, p := range pairs {
		r.scalar(name, p[:], returns, func() engine.Row {
			left, right := k.open(p[0]), k.open(p[1])
			return func(i int, a []engine.Column, out *engine.Output) error {
				x, err := left(&a[0], i)
				if err != nil {
					return err
				}
				y, err := right(&a[1], i)
				if err != nil {
					return err
				}
				return f(i, x, y, out)
			}
		})
	}
}

// withText are the pairs that every type has.
func withText(t engine.Type) [][2]engine.Type {
	return [][2]engine.Type{{t, t}, {t, engine.Text}, {engine.Text, t}}
}

// once parses a text when it is another one than the last.
func once[T any](parse func(s string) (T, error)) argument[T] {
	var last string
	var value T
	known := false
	return func(a *engine.Column, i int) (T, error) {
		s := a.Text(i)
		if known && s == last {
			return value, nil
		}
		known = false
		v, err := parse(s)
		if err == nil {
			last, value, known = string([]byte(s)), v, true
		}
		return v, err
	}
}

// denseType is vector or halfvec.
type denseType struct {
	*pgvector.Dense
	in engine.Type
}

// kind: a halfvec takes vectors too, as pgvector converts them unasked.
func (d denseType) kind() kind[[]float32] {
	pairs := withText(d.in)
	if d.Dense == pgvector.Halfvec {
		pairs = append(pairs, [2]engine.Type{d.in, engine.Vector}, [2]engine.Type{engine.Vector, d.in})
	}
	return kind[[]float32]{name: d.Name(), pairs: pairs, open: d.open, same: d.Same}
}

// open reads values of the type itself as they are, and converts all others.
func (d denseType) open(from engine.Type) argument[[]float32] {
	if from == d.in {
		return func(a *engine.Column, i int) ([]float32, error) { return a.Floats(i), nil }
	}
	return d.convert(from)
}

// convert makes values of the type, and checks those that claim to be some.
func (d denseType) convert(from engine.Type) argument[[]float32] {
	var buf []float32
	keep := func(v []float32, err error) ([]float32, error) {
		if err == nil {
			buf = v
		}
		return v, err
	}
	switch from {
	case engine.Text:
		return once(func(s string) ([]float32, error) { return keep(d.Parse(s, buf[:0])) })
	case engine.Sparsevec:
		var v vec.Sparse
		return func(a *engine.Column, i int) ([]float32, error) {
			if err := pgvector.ParseSparseKey(a.Bytes(i), &v); err != nil {
				return nil, err
			}
			return keep(d.FromSparse(&v, buf[:0]))
		}
	}
	return func(a *engine.Column, i int) ([]float32, error) {
		if a.HasNullElement(i) {
			return nil, pgvector.NullElement()
		}
		switch from {
		case engine.Ints:
			return keep(pgvector.FromNumbers(d.Dense, a.Ints(i), buf[:0]))
		case engine.BigInts:
			return keep(pgvector.FromNumbers(d.Dense, a.BigInts(i), buf[:0]))
		case engine.DoubleList:
			return keep(pgvector.FromNumbers(d.Dense, a.Doubles(i), buf[:0]))
		}
		return keep(pgvector.FromNumbers(d.Dense, a.Floats(i), buf[:0]))
	}
}

// numberLists are the lists that become vectors.
var numberLists = []engine.Type{engine.FloatList, engine.DoubleList, engine.Ints, engine.BigInts}

// dense registers what vector and halfvec have in common.
func (r *registrar) dense(d denseType) {
	name := d.Name()
	// The engine gives an argument of one of these types when it was cast, or should have been.
	for _, from := range []engine.Type{engine.FloatList, engine.Vector, engine.Halfvec} {
		r.casts(name, from, d.in, func(dim int) engine.Row {
			read := d.convert(from)
			return func(i int, a []engine.Column, out *engine.Output) error {
				v, err := read(&a[0], i)
				if err == nil && dim >= 0 {
					err = pgvector.CheckDim(v, int(a[dim].Int32(i)))
				}
				if err == nil {
					out.Floats(i, v)
				}
				return err
			}
		})
	}
	costs := map[engine.Type]int64{engine.Text: 100, engine.Sparsevec: -1, engine.FloatList: -1, engine.DoubleList: -1, engine.Ints: -1, engine.BigInts: -1}
	if d.Dense == pgvector.Vector {
		costs[engine.FloatList], costs[engine.DoubleList] = 10, 20
	}
	for from, cost := range costs {
		r.cast(from, d.in, cost, func(i int, in *engine.Column, out *engine.Output) error {
			v, err := d.convert(from)(in, i)
			if err == nil {
				out.Floats(i, v)
			}
			return err
		})
	}
	r.cast(engine.SmallInts, d.in, -1, func(int, *engine.Column, *engine.Output) error {
		return errs.New(errs.Invalid, "sql.cast", "cannot cast type smallint[] to "+name)
	})
	r.cast(d.in, engine.Text, -1, func(i int, in *engine.Column, out *engine.Output) error {
		out.Text(i, pgvector.Format(in.Floats(i)))
		return nil
	})

	k := d.kind()
	measure(r, k, vec.L2, "<->", "l2_distance", name+"_l2_distance")
	measure(r, k, vec.NegativeDot, NegativeDot, name+"_negative_inner_product")
	measure(r, k, vec.Cosine, "<=>", "cosine_distance", name+"_cosine_distance")
	measure(r, k, vec.L1, "<+>", "l1_distance", name+"_l1_distance")
	measure(r, k, func(a, b []float32) float64 { return float64(vec.Dot(a, b)) }, "inner_product", name+"_inner_product")
	measure(r, k, vec.Spherical, name+"_spherical_distance")
	measure(r, k, func(a, b []float32) float64 { return float64(vec.SquaredL2(a, b)) }, name+"_l2_squared_distance")
	for op, f := range map[string]func(a, b, into []float32) ([]float32, error){"+": d.Add, "-": d.Sub, "*": d.Mul, "||": d.Concat,
		name + "_add": d.Add, name + "_sub": d.Sub, name + "_mul": d.Mul, name + "_concat": d.Concat} {
		binary(r, k, op, d.in, func(i int, a, b []float32, out *engine.Output) error {
			v, err := f(a, b, nil)
			if err == nil {
				out.Floats(i, v)
			}
			return err
		})
	}
	binary(r, k, name+"_cmp", engine.Int32, func(i int, a, b []float32, out *engine.Output) error {
		out.Int32(i, int32(pgvector.Compare(a, b)))
		return nil
	})
	one := []engine.Type{d.in}
	r.row("vector_dims", one, engine.Int32, func(i int, a []engine.Column, out *engine.Output) error {
		out.Int32(i, int32(len(a[0].Floats(i))))
		return nil
	})
	norm := "vector_norm"
	if d.Dense == pgvector.Halfvec {
		norm = "l2_norm"
	}
	r.row(norm, one, engine.Float64, func(i int, a []engine.Column, out *engine.Output) error {
		out.Float64(i, vec.Norm(a[0].Floats(i)))
		return nil
	})
	r.row("l2_normalize", one, d.in, func(i int, a []engine.Column, out *engine.Output) error {
		v, err := d.Normalize(a[0].Floats(i), nil)
		if err == nil {
			out.Floats(i, v)
		}
		return err
	})
	r.row("subvector", []engine.Type{d.in, engine.Int32, engine.Int32}, d.in, func(i int, a []engine.Column, out *engine.Output) error {
		v, err := d.Subvector(a[0].Floats(i), a[1].Int32(i), a[2].Int32(i))
		if err == nil {
			out.Floats(i, v)
		}
		return err
	})
	r.row("binary_quantize", one, engine.Bit, func(i int, a []engine.Column, out *engine.Output) error {
		v := a[0].Floats(i)
		out.Bits(i, pgvector.QuantizeBits(v, nil), len(v))
		return nil
	})
	r.row(FloatsFunction, one, engine.FloatList, func(i int, a []engine.Column, out *engine.Output) error {
		out.Floats(i, a[0].Floats(i))
		return nil
	})
}

// casts registers a cast as a function, without and with a number of dimensions, whose argument's place the row is told.
func (r *registrar) casts(typ string, from, to engine.Type, start func(dim int) engine.Row) {
	r.scalar(CastFunction(typ), []engine.Type{from}, to, func() engine.Row { return start(-1) })
	r.scalar(CastFunction(typ), []engine.Type{from, engine.Int32}, to, func() engine.Row { return start(1) })
	r.assignment(typ, from, to, func() engine.Row { return start(-1) })
}

// assignment registers a conversion as a function that is told the name of the column too, for its errors.
func (r *registrar) assignment(typ string, from, to engine.Type, start func() engine.Row) {
	r.scalar(AssignFunction(typ), []engine.Type{from, engine.Text}, to, func() engine.Row {
		convert := start()
		return func(i int, a []engine.Column, out *engine.Output) error {
			if err := convert(i, a, out); err != nil {
				return errs.With(err, errs.On(strings.Clone(a[1].Text(i))))
			}
			return nil
		}
	})
}

// refuse registers the refusal of a cast. It lets NULLs pass, which the engine takes for integers.
func (r *registrar) refuse(typ string, from engine.Type, name string, to engine.Type) {
	r.casts(typ, from, to, func(int) engine.Row {
		return func(int, []engine.Column, *engine.Output) error {
			return errs.New(errs.Invalid, "sql.cast", "cannot cast type "+name+" to "+typ)
		}
	})
}

// halfvecAggregates registers sum and avg; those of vector are the engine room's.
func (r *registrar) halfvecAggregates() {
	half := engine.Aggregate{Args: []engine.Type{engine.Halfvec}, Returns: engine.Halfvec}
	sum, avg := half, half
	sum.Name, avg.Name = "halfvec_sum", "halfvec_avg"
	sum.New = func() any { return pgvector.NewSum(pgvector.Halfvec) }
	sum.Add = func(s any, i int, a []engine.Column) error { return s.(*pgvector.Sum).Add(a[0].Floats(i)) }
	sum.Merge = func(s, o any) error { return s.(*pgvector.Sum).Merge(o.(*pgvector.Sum)) }
	sum.Done = func(s any, i int, out *engine.Output) error {
		out.Floats(i, s.(*pgvector.Sum).Value())
		return nil
	}
	avg.New = func() any { return pgvector.NewAvg(pgvector.Halfvec) }
	avg.Add = func(s any, i int, a []engine.Column) error { return s.(*pgvector.Avg).Add(a[0].Floats(i)) }
	avg.Merge = func(s, o any) error { return s.(*pgvector.Avg).Merge(o.(*pgvector.Avg)) }
	avg.Done = func(s any, i int, out *engine.Output) error {
		v, err := s.(*pgvector.Avg).Value(nil)
		if err == nil {
			out.Floats(i, v)
		}
		return err
	}
	r.err = errors.Join(r.err, r.db.RegisterAggregate(sum), r.db.RegisterAggregate(avg))
}
