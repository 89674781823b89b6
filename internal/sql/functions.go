package sql

import (
	"errors"
	"fmt"
	"math"

	"github.com/overlakedb/overlake/internal/engine"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25"
	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/pgvector"
)

const (
	// negativeDot stands in the engine for <#>, which its grammar does not know.
	negativeDot = "<!>"
	// checkFunction checks the number of dimensions of a vector.
	checkFunction = "overlake_vector"
	// listFunction makes a vector of a list of floats: a cast between the two would keep the list's type.
	listFunction = "overlake_list_vector"
)

// registerVectors teaches an engine pgvector's casts, operators and functions.
func registerVectors(db *engine.DB) error {
	var all []error
	cast := func(from, to engine.Type, cost int64, row func(i int, in *engine.Column, out *engine.Output) error) {
		all = append(all, db.RegisterCast(engine.Cast{From: from, To: to, Cost: cost, Row: row}))
	}
	checked := func(v []float32, i int, in *engine.Column, out *engine.Output) error {
		if in.HasNullElement(i) {
			return errors.New("array must not contain nulls")
		}
		if err := pgvector.Check(v); err != nil {
			return err
		}
		out.Floats(i, v)
		return nil
	}
	cast(engine.Text, engine.Vector, 100, func(i int, in *engine.Column, out *engine.Output) error {
		v, err := pgvector.Parse(in.Text(i), nil)
		if err == nil {
			out.Floats(i, v)
		}
		return err
	})
	cast(engine.Vector, engine.Text, -1, func(i int, in *engine.Column, out *engine.Output) error {
		out.Text(i, pgvector.Format(in.Floats(i)))
		return nil
	})
	cast(engine.FloatList, engine.Vector, 10, func(i int, in *engine.Column, out *engine.Output) error {
		return checked(in.Floats(i), i, in, out)
	})
	cast(engine.DoubleList, engine.Vector, 20, func(i int, in *engine.Column, out *engine.Output) error {
		return checked(narrow(in.Doubles(i)), i, in, out)
	})
	cast(engine.Ints, engine.Vector, -1, func(i int, in *engine.Column, out *engine.Output) error {
		return checked(narrow(in.Ints(i)), i, in, out)
	})
	cast(engine.BigInts, engine.Vector, -1, func(i int, in *engine.Column, out *engine.Output) error {
		return checked(narrow(in.BigInts(i)), i, in, out)
	})
	cast(engine.SmallInts, engine.Vector, -1, func(int, *engine.Column, *engine.Output) error {
		return errors.New("cannot cast type smallint[] to vector")
	})

	for _, d := range []struct {
		names []string
		f     func(a, b []float32) float64
	}{
		{[]string{"<->", "l2_distance", "vector_l2_distance"}, vec.L2},
		{[]string{negativeDot, "vector_negative_inner_product"}, func(a, b []float32) float64 { return -float64(vec.Dot(a, b)) }},
		{[]string{"<=>", "cosine_distance", "vector_cosine_distance"}, vec.Cosine},
		{[]string{"<+>", "l1_distance", "vector_l1_distance"}, vec.L1},
		{[]string{"inner_product", "vector_inner_product"}, func(a, b []float32) float64 { return float64(vec.Dot(a, b)) }},
		{[]string{"vector_spherical_distance"}, func(a, b []float32) float64 {
			return math.Acos(math.Max(-1, math.Min(1, float64(vec.Dot(a, b))))) / math.Pi
		}},
		{[]string{"vector_l2_squared_distance"}, func(a, b []float32) float64 { return float64(vec.SquaredL2(a, b)) }},
	} {
		for _, name := range d.names {
			all = append(all, pairwise(db, name, d.f)...)
		}
	}
	scalar := func(name string, args []engine.Type, returns engine.Type, row func(i int, a []engine.Column, out *engine.Output) error) {
		all = append(all, db.RegisterScalar(engine.Scalar{Name: name, Args: args, Returns: returns, Row: row}))
	}
	two := []engine.Type{engine.Vector, engine.Vector}
	one := two[:1]
	for name, f := range map[string]func(a, b, into []float32) ([]float32, error){"+": pgvector.Add, "-": pgvector.Sub, "*": pgvector.Mul, "||": pgvector.Concat,
		"vector_add": pgvector.Add, "vector_sub": pgvector.Sub, "vector_mul": pgvector.Mul, "vector_concat": pgvector.Concat} {
		scalar(name, two, engine.Vector, func(i int, a []engine.Column, out *engine.Output) error {
			v, err := f(a[0].Floats(i), a[1].Floats(i), nil)
			if err == nil {
				out.Floats(i, v)
			}
			return err
		})
	}
	scalar("vector_dims", one, engine.Int32, func(i int, a []engine.Column, out *engine.Output) error {
		out.Int32(i, int32(len(a[0].Floats(i))))
		return nil
	})
	scalar("vector_norm", one, engine.Float64, func(i int, a []engine.Column, out *engine.Output) error {
		out.Float64(i, vec.Norm(a[0].Floats(i)))
		return nil
	})
	scalar("l2_normalize", one, engine.Vector, func(i int, a []engine.Column, out *engine.Output) error {
		v, err := pgvector.Normalize(a[0].Floats(i), nil)
		if err == nil {
			out.Floats(i, v)
		}
		return err
	})
	scalar("subvector", []engine.Type{engine.Vector, engine.Int32, engine.Int32}, engine.Vector, func(i int, a []engine.Column, out *engine.Output) error {
		v, err := pgvector.Subvector(a[0].Floats(i), a[1].Int32(i), a[2].Int32(i))
		if err == nil {
			out.Floats(i, v)
		}
		return err
	})
	scalar("vector_cmp", two, engine.Int32, func(i int, a []engine.Column, out *engine.Output) error {
		out.Int32(i, int32(pgvector.Compare(a[0].Floats(i), a[1].Floats(i))))
		return nil
	})
	scalar("binary_quantize", one, engine.Text, func(i int, a []engine.Column, out *engine.Output) error {
		out.Text(i, pgvector.Quantize(a[0].Floats(i)))
		return nil
	})
	scalar(listFunction, []engine.Type{engine.FloatList}, engine.Vector, func(i int, a []engine.Column, out *engine.Output) error {
		if a[0].HasNullElement(i) {
			return errors.New("array must not contain nulls")
		}
		out.Floats(i, a[0].Floats(i))
		return nil
	})
	scalar(checkFunction, []engine.Type{engine.Vector, engine.Int32}, engine.Vector, func(i int, a []engine.Column, out *engine.Output) error {
		v := a[0].Floats(i)
		if err := pgvector.CheckDim(v, int(a[1].Int32(i))); err != nil {
			return err
		}
		out.Floats(i, v)
		return nil
	})
	for name, pick := range map[string]func(h, j float64) float64{"<~>": func(h, _ float64) float64 { return h }, "hamming_distance": func(h, _ float64) float64 { return h },
		"<%>": func(_, j float64) float64 { return j }, "jaccard_distance": func(_, j float64) float64 { return j }} {
		scalar(name, []engine.Type{engine.Text, engine.Text}, engine.Float64, func(i int, a []engine.Column, out *engine.Output) error {
			h, j, err := pgvector.BitDistances(a[0].Text(i), a[1].Text(i))
			if err == nil {
				out.Float64(i, pick(h, j))
			}
			return err
		})
	}
	return errors.Join(all...)
}

// narrow gives numbers the precision of a vector; what is too large becomes infinite, which a vector refuses.
func narrow[T int32 | int64 | float64](in []T) []float32 {
	out := make([]float32, len(in))
	for i, x := range in {
		out[i] = float32(x)
		if math.IsInf(float64(x), 0) {
			out[i] = float32(math.Inf(int(math.Copysign(1, float64(x)))))
		}
	}
	return out
}

// pairwise registers a distance for vectors and, on either side, their text. A query is usually one constant text: it is
// parsed once a batch, not once a row.
func pairwise(db *engine.DB, name string, f func(a, b []float32) float64) []error {
	var all []error
	for _, types := range [][]engine.Type{{engine.Vector, engine.Vector}, {engine.Vector, engine.Text}, {engine.Text, engine.Vector}} {
		all = append(all, db.RegisterScalar(engine.Scalar{Name: name, Args: types, Returns: engine.Float64,
			Start: func() func(i int, a []engine.Column, out *engine.Output) error {
				var parsed [2]struct {
					text string
					v    []float32
				}
				return func(i int, a []engine.Column, out *engine.Output) error {
					var v [2][]float32
					for k, t := range types {
						if t == engine.Vector {
							v[k] = a[k].Floats(i)
							continue
						}
						p := &parsed[k]
						if s := a[k].Text(i); p.v == nil || s != p.text {
							var err error
							if p.v, err = pgvector.Parse(s, p.v[:0]); err != nil {
								return err
							}
							p.text = s
						}
						v[k] = p.v
					}
					if err := pgvector.Same(v[0], v[1]); err != nil {
						return err
					}
					out.Float64(i, f(v[0], v[1]))
					return nil
				}
			}}))
	}
	return all
}

// The functions that score texts take the number of a scorer, which rewriting puts there.
const (
	scoreFunction = "overlake_bm25"
	matchFunction = "overlake_match"
)

func (e *Env) registerText() error {
	find := func(id int64) (*bm25.Scorer, error) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if s := e.scorers[id]; s != nil {
			return s, nil
		}
		return nil, errs.New(errs.NotFound, "sql.text", fmt.Sprintf("there is no text query %d", id))
	}
	start := func(use func(s *bm25.Scorer, st *bm25.State, i int, text string, out *engine.Output)) func() func(i int, a []engine.Column, out *engine.Output) error {
		return func() func(i int, a []engine.Column, out *engine.Output) error {
			var st bm25.State
			var s *bm25.Scorer
			return func(i int, a []engine.Column, out *engine.Output) error {
				if s == nil {
					var err error
					if s, err = find(a[0].Int64(i)); err != nil {
						return err
					}
				}
				use(s, &st, i, a[1].Text(i), out)
				return nil
			}
		}
	}
	args := []engine.Type{engine.Int64, engine.Text}
	return errors.Join(
		e.engine.RegisterScalar(engine.Scalar{Name: scoreFunction, Args: args, Returns: engine.Float32,
			Start: start(func(s *bm25.Scorer, st *bm25.State, i int, text string, out *engine.Output) {
				out.Float32(i, s.Score(text, st))
			})}),
		e.engine.RegisterScalar(engine.Scalar{Name: matchFunction, Args: args, Returns: engine.Bool,
			Start: start(func(s *bm25.Scorer, st *bm25.State, i int, text string, out *engine.Output) {
				out.Bool(i, s.Match(text, st))
			})}))
}

// addScorer keeps a scorer while a statement runs.
func (q *statement) addScorer(s *bm25.Scorer) int64 {
	e := q.s.env
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last++
	id := e.last
	e.scorers[id] = s
	q.release = append(q.release, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.scorers, id)
	})
	return id
}
