package coltype

import (
	"slices"

	"github.com/overlakedb/overlake/internal/engine"
	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/pgvector"
)

// loadSparse makes a sparsevec of the struct that a table holds.
const loadSparse = "overlake_load_sparsevec"

// sparseArgument reads a sparsevec, and makes one of other types.
func sparseArgument(from engine.Type) argument[*vec.Sparse] {
	v := new(vec.Sparse)
	switch from {
	case engine.Text:
		return once(func(s string) (*vec.Sparse, error) { return v, pgvector.ParseSparse(s, v) })
	case engine.Sparsevec:
		return func(a *engine.Column, i int) (*vec.Sparse, error) { return v, pgvector.ParseSparseKey(a.Bytes(i), v) }
	}
	return func(a *engine.Column, i int) (*vec.Sparse, error) {
		if a.HasNullElement(i) {
			return nil, pgvector.NullElement()
		}
		switch from {
		case engine.Ints:
			return v, pgvector.SparseFromNumbers(a.Ints(i), v)
		case engine.BigInts:
			return v, pgvector.SparseFromNumbers(a.BigInts(i), v)
		case engine.DoubleList:
			return v, pgvector.SparseFromNumbers(a.Doubles(i), v)
		}
		return v, pgvector.SparseFromNumbers(a.Floats(i), v)
	}
}

// sparse registers sparsevec.
func (r *registrar) sparse() {
	const t = engine.Sparsevec
	for _, from := range slices.Concat(numberLists, []engine.Type{engine.Text, engine.Vector, engine.Halfvec, t}) {
		r.casts("sparsevec", from, t, func(dim int) engine.Row {
			read, put := sparseArgument(from), sparseOutput()
			return func(i int, a []engine.Column, out *engine.Output) error {
				v, err := read(&a[0], i)
				if err == nil && dim >= 0 {
					err = pgvector.CheckSparseDim(v, int(a[dim].Int32(i)))
				}
				if err == nil {
					put(i, v, out)
				}
				return err
			}
		})
	}
	r.refuse("sparsevec", engine.SmallInts, "smallint[]", t)
	r.refuse("sparsevec", engine.Int32, "integer", t)
	for from, cost := range map[engine.Type]int64{engine.Text: 100, engine.Vector: 50, engine.Halfvec: 50} {
		r.cast(from, t, cost, func(i int, in *engine.Column, out *engine.Output) error {
			v, err := sparseArgument(from)(in, i)
			if err == nil {
				sparseOutput()(i, v, out)
			}
			return err
		})
	}
	r.cast(t, engine.Text, -1, func(i int, in *engine.Column, out *engine.Output) error {
		v, err := sparseArgument(t)(in, i)
		if err == nil {
			out.Text(i, pgvector.FormatSparse(v))
		}
		return err
	})

	k := kind[*vec.Sparse]{name: "sparsevec", pairs: withText(t), open: sparseArgument, same: pgvector.SameSparse}
	dot := func(a, b *vec.Sparse) float64 { return float64(vec.SparseDot(a, b)) }
	measure(r, k, vec.SparseL2, "<->", "l2_distance", "sparsevec_l2_distance")
	measure(r, k, func(a, b *vec.Sparse) float64 { return -dot(a, b) }, NegativeDot, "sparsevec_negative_inner_product")
	measure(r, k, vec.SparseCosine, "<=>", "cosine_distance", "sparsevec_cosine_distance")
	measure(r, k, vec.SparseL1, "<+>", "l1_distance", "sparsevec_l1_distance")
	measure(r, k, dot, "inner_product", "sparsevec_inner_product")
	measure(r, k, func(a, b *vec.Sparse) float64 { return float64(vec.SparseSquaredL2(a, b)) }, "sparsevec_l2_squared_distance")
	binary(r, k, "sparsevec_cmp", engine.Int32, func(i int, a, b *vec.Sparse, out *engine.Output) error {
		out.Int32(i, int32(pgvector.CompareSparse(a, b)))
		return nil
	})
	r.scalar("l2_norm", []engine.Type{t}, engine.Float64, func() engine.Row {
		read := sparseArgument(t)
		return func(i int, a []engine.Column, out *engine.Output) error {
			v, err := read(&a[0], i)
			if err == nil {
				out.Float64(i, vec.Norm(v.Value))
			}
			return err
		}
	})
	r.scalar("l2_normalize", []engine.Type{t}, t, func() engine.Row {
		read, put := sparseArgument(t), sparseOutput()
		return func(i int, a []engine.Column, out *engine.Output) error {
			v, err := read(&a[0], i)
			if err == nil {
				err = pgvector.NormalizeSparse(v)
			}
			if err == nil {
				put(i, v, out)
			}
			return err
		}
	})
	r.scalar(loadSparse, []engine.Type{engine.Int32, engine.Ints, engine.FloatList}, t, func() engine.Row {
		put := sparseOutput()
		return func(i int, a []engine.Column, out *engine.Output) error {
			if a[1].HasNullElement(i) || a[2].HasNullElement(i) {
				return pgvector.NullElement()
			}
			v := vec.Sparse{Dim: int(a[0].Int32(i)), Index: a[1].Ints(i), Value: a[2].Floats(i)}
			if err := pgvector.CheckSparse(&v); err != nil {
				return err
			}
			put(i, &v, out)
			return nil
		}
	})
}

// sparseOutput writes values of sparsevec.
func sparseOutput() func(i int, v *vec.Sparse, out *engine.Output) {
	var key []byte
	return func(i int, v *vec.Sparse, out *engine.Output) {
		key = pgvector.AppendSparseKey(key[:0], v)
		out.Bytes(i, key)
	}
}
