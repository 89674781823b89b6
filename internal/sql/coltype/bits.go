package coltype

import (
	"github.com/overlakedb/overlake/internal/engine"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/pgvector"
)

const (
	// BitsFunction makes a bit string of text; of no characters too, which the engine's own cast refuses.
	BitsFunction = "overlake_bits"
	// loadBits makes a bit string of the packed bytes that a table holds.
	loadBits = "overlake_load_bits"
)

// bitString is packed bits and their number.
type bitString struct {
	packed []byte
	n      int
}

func bitArgument(from engine.Type) argument[bitString] {
	var buf []byte
	if from == engine.Text {
		return once(func(s string) (bitString, error) {
			b, err := pgvector.PackBits(s, buf[:0])
			if err == nil {
				buf = b
			}
			return bitString{b, len(s)}, err
		})
	}
	return func(a *engine.Column, i int) (bitString, error) {
		var n int
		buf, n = a.Bits(i, buf[:0])
		return bitString{buf, n}, nil
	}
}

// bits registers what pgvector adds to bit strings, and casts to bit(n), which cut and fill on the right as PostgreSQL's do.
func (r *registrar) bits() {
	k := kind[bitString]{
		pairs: append(withText(engine.Bit), [2]engine.Type{engine.Text, engine.Text}),
		open:  bitArgument,
		same:  func(a, b bitString) error { return pgvector.SameBits(a.n, b.n) },
	}
	measure(r, k, func(a, b bitString) float64 { return float64(vec.Hamming(a.packed, b.packed)) }, "<~>", "hamming_distance")
	measure(r, k, func(a, b bitString) float64 { return vec.Jaccard(a.packed, b.packed) }, "<%>", "jaccard_distance")
	for _, from := range []engine.Type{engine.Text, engine.Bit} {
		whole := func() engine.Row {
			read := bitArgument(from)
			return func(i int, a []engine.Column, out *engine.Output) error {
				v, err := read(&a[0], i)
				if err == nil {
					out.Bits(i, v.packed, v.n)
				}
				return err
			}
		}
		r.scalar(BitsFunction, []engine.Type{from}, engine.Bit, whole)
		r.assignment("bit", from, engine.Bit, whole)
		r.scalar(CastFunction("bit"), []engine.Type{from, engine.Int32}, engine.Bit, func() engine.Row {
			read := bitArgument(from)
			var buf []byte
			return func(i int, a []engine.Column, out *engine.Output) error {
				v, err := read(&a[0], i)
				if err != nil {
					return err
				}
				n := int(a[1].Int32(i))
				if err := pgvector.CheckModifier("bit", int64(n)); err != nil {
					return err
				}
				buf = pgvector.ResizeBits(append(buf[:0], v.packed...), v.n, n)
				out.Bits(i, buf, n)
				return nil
			}
		})
	}
	// The lowest bits of a number, its sign in front.
	r.row(CastFunction("bit"), []engine.Type{engine.Int64, engine.Int32}, engine.Bit, func(i int, a []engine.Column, out *engine.Output) error {
		v, n := a[0].Int64(i), int(a[1].Int32(i))
		if err := pgvector.CheckModifier("bit", int64(n)); err != nil {
			return err
		}
		packed := make([]byte, (n+7)/8)
		for k := range n {
			if v>>min(n-1-k, 63)&1 == 1 {
				packed[k/8] |= 0x80 >> (k % 8)
			}
		}
		out.Bits(i, packed, n)
		return nil
	})
	r.assignment("bit", engine.Int32, engine.Bit, func() engine.Row {
		return func(int, []engine.Column, *engine.Output) error {
			return errs.New(errs.Invalid, "sql.cast", "an integer is no bit string", errs.Hint("cast it to bit(n)"))
		}
	})
	r.row(loadBits, []engine.Type{engine.Blob, engine.Int32}, engine.Bit, func(i int, a []engine.Column, out *engine.Output) error {
		packed, n := a[0].Bytes(i), int(a[1].Int32(i))
		if err := pgvector.CheckPacked(packed, n); err != nil {
			return err
		}
		out.Bits(i, packed, n)
		return nil
	})
}
