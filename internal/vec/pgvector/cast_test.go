package pgvector_test

import (
	"errors"
	"math"
	"testing"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/vec/pgvector"
)

// wantError checks message, SQLSTATE and kind.
func wantError(t *testing.T, err error, code, message string) {
	t.Helper()
	var e *pgvector.Error
	if !errors.As(err, &e) || e.Code != code || err.Error() != message || errs.KindOf(err) != errs.Invalid {
		t.Errorf("got %v, want %s %s", err, code, message)
	}
}

func wantVector(t *testing.T, v []float32, err error, want string) {
	t.Helper()
	if err != nil || pgvector.Format(v) != want {
		t.Errorf("got %v, %v, want %s", pgvector.Format(v), err, want)
	}
}

func TestCasts(t *testing.T) {
	v, err := pgvector.FromNumbers(pgvector.Vector, []float64{1.25, 1e-50, -2}, nil)
	wantVector(t, v, err, "[1.25,0,-2]")
	v, err = pgvector.FromNumbers(pgvector.Vector, []int32{1, 16777217}, []float32{9})
	wantVector(t, v, err, "[9,1,1.6777216e+07]")
	v, err = pgvector.FromNumbers(pgvector.Vector, []int64{-3}, nil)
	wantVector(t, v, err, "[-3]")
	v, err = pgvector.FromNumbers(pgvector.Vector, []float32{1, 2}, nil)
	wantVector(t, v, err, "[1,2]")
	v, err = pgvector.FromNumbers(pgvector.Halfvec, []float64{0.1, 65519, 1e-9}, nil)
	wantVector(t, v, err, "[0.099975586,65504,0]")

	for typ, d := range map[string]*pgvector.Dense{"vector": pgvector.Vector, "halfvec": pgvector.Halfvec} {
		_, err = pgvector.FromNumbers(d, []float64{1e39}, nil)
		wantError(t, err, pgvector.CodeData, "infinite value not allowed in "+typ)
		_, err = pgvector.FromNumbers(d, []float64{math.NaN()}, nil)
		wantError(t, err, pgvector.CodeData, "NaN not allowed in "+typ)
		_, err = pgvector.FromNumbers(d, []float32(nil), nil)
		wantError(t, err, pgvector.CodeData, typ+" must have at least 1 dimension")
		_, err = pgvector.FromNumbers(d, make([]int32, 16001), nil)
		wantError(t, err, pgvector.CodeLimit, typ+" cannot have more than 16000 dimensions")
	}
	_, err = pgvector.FromNumbers(pgvector.Halfvec, []int32{1, 65520}, nil)
	wantError(t, err, pgvector.CodeOutOfRange, `"65520" is out of range for type halfvec`)
	_, err = pgvector.FromNumbers(pgvector.Halfvec, []float32{-2e6}, nil)
	wantError(t, err, pgvector.CodeOutOfRange, `"-2e+06" is out of range for type halfvec`)
	wantError(t, pgvector.NullElement(), pgvector.CodeNull, "array must not contain nulls")
	wantError(t, pgvector.NotFlat(), pgvector.CodeData, "array must be 1-D")
}

func TestModifiers(t *testing.T) {
	for _, c := range []struct {
		typ     string
		n       int64
		message string
	}{
		{"vector", 0, "dimensions for type vector must be at least 1"}, {"halfvec", -1, "dimensions for type halfvec must be at least 1"},
		{"vector", 16001, "dimensions for type vector cannot exceed 16000"}, {"halfvec", 16001, "dimensions for type halfvec cannot exceed 16000"},
		{"sparsevec", 1000000001, "dimensions for type sparsevec cannot exceed 1000000000"}, {"bit", 0, "length for type bit must be at least 1"},
		{"bit", 83886081, "length for type bit cannot exceed 83886080"},
	} {
		wantError(t, pgvector.CheckModifier(c.typ, c.n), pgvector.CodeParameter, c.message)
	}
	for typ, n := range map[string]int64{"vector": 16000, "halfvec": 16000, "sparsevec": 1000000000, "bit": 83886080} {
		if err := pgvector.CheckModifier(typ, n); err != nil {
			t.Error(err)
		}
	}
	wantError(t, pgvector.CheckDim([]float32{1, 2}, 3), pgvector.CodeData, "expected 3 dimensions, not 2")
}

func TestAggregates(t *testing.T) {
	type vs = [][]float32
	for _, c := range []struct {
		in       vs
		sum, avg string // a vector, an error, or NULL
	}{
		{nil, "NULL", "NULL"},
		{vs{{1, 2}}, "[1,2]", "[1,2]"},
		{vs{{1, 2}, {3, 6}}, "[4,8]", "[2,4]"},
		{vs{{.1}, {.2}, {.3}}, "[0.6]", "[0.2]"},
		{vs{{1, 2}, {3}}, "different vector dimensions 2 and 1", "expected 2 dimensions, not 1"},
		{vs{{3e38}, {3e38}}, "value out of range: overflow", "[3e+38]"},
	} {
		// The same rows in one part and in two parts give the same.
		for split := range len(c.in) + 1 {
			sums := [2]*pgvector.Sum{pgvector.NewSum(pgvector.Vector), pgvector.NewSum(pgvector.Vector)}
			avgs := [2]*pgvector.Avg{pgvector.NewAvg(pgvector.Vector), pgvector.NewAvg(pgvector.Vector)}
			var sumErr, avgErr error
			for i, v := range c.in {
				part := 0
				if i >= split {
					part = 1
				}
				sumErr = errors.Join(sumErr, sums[part].Add(v))
				avgErr = errors.Join(avgErr, avgs[part].Add(v))
			}
			sumErr = errors.Join(sumErr, sums[0].Merge(sums[1]))
			avgErr = errors.Join(avgErr, avgs[0].Merge(avgs[1]))
			avg, err := avgs[0].Value(nil)
			for _, r := range []struct {
				name string
				v    []float32
				err  error
				want string
			}{{"sum", sums[0].Value(), sumErr, c.sum}, {"avg", avg, errors.Join(avgErr, err), c.avg}} {
				got := "NULL"
				if r.err != nil {
					got = r.err.Error()
				} else if r.v != nil {
					got = pgvector.Format(r.v)
				}
				if got != r.want {
					t.Errorf("%s of %v in parts of %d: %s, want %s", r.name, c.in, split, got, r.want)
				}
			}
		}
	}
	// The sum of a vector must not write into it.
	first := []float32{1}
	s := pgvector.NewSum(pgvector.Vector)
	if err := errors.Join(s.Add(first), s.Add(first)); err != nil || first[0] != 1 || s.Value()[0] != 2 {
		t.Error(err, first, s.Value())
	}
}

// TestHalfAggregates: a sum is rounded at every step, an average once.
func TestHalfAggregates(t *testing.T) {
	s, a := pgvector.NewSum(pgvector.Halfvec), pgvector.NewAvg(pgvector.Halfvec)
	for _, text := range []string{"[0.1,1]", "[0.2,2]", "[0.3,4]"} {
		v, err := pgvector.Halfvec.Parse(text, nil)
		if err = errors.Join(err, s.Add(v), a.Add(v)); err != nil {
			t.Fatal(err)
		}
	}
	wantVector(t, s.Value(), nil, "[0.5996094,7]")
	v, err := a.Value(nil)
	wantVector(t, v, err, "[0.19995117,2.3339844]")
	wantError(t, errors.Join(s.Add([]float32{65504, 0}), s.Add([]float32{65504, 0})), pgvector.CodeOutOfRange, "value out of range: overflow")
}

func TestBitStrings(t *testing.T) {
	v := []float32{1, -1, 0, 2, 5, 5, 5, 5, .5}
	packed := pgvector.QuantizeBits(v, nil)
	again, err := pgvector.PackBits("100111111", nil)
	if err != nil || string(again) != string(packed) || packed[0] != 0b10011111 || packed[1] != 0b10000000 {
		t.Errorf("%08b %08b %v", packed, again, err)
	}
	wantError(t, pgvector.SameBits(3, 2), pgvector.CodeData, "different bit lengths 3 and 2")
	wantError(t, pgvector.CheckBits(3, 8), pgvector.CodeData, "bit string length 3 does not match type bit(8)")
	_, err = pgvector.PackBits("102", nil)
	wantError(t, err, pgvector.CodeSyntax, `"2" is not a valid binary digit`)
	for _, c := range []struct {
		text string
		n    int
		want string
	}{{"101", 3, "101"}, {"101", 5, "10100"}, {"101", 2, "10"}, {"1111111111", 9, "111111111"}, {"1", 17, "10000000000000000"}, {"11111111", 8, "11111111"}, {"", 2, "00"}} {
		have, err1 := pgvector.PackBits(c.text, nil)
		want, err2 := pgvector.PackBits(c.want, nil)
		if got := pgvector.ResizeBits(have, len(c.text), c.n); err1 != nil || err2 != nil || string(got) != string(want) {
			t.Errorf("%s as bit(%d) is %08b, want %08b", c.text, c.n, got, want)
		}
	}
}
