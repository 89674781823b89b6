package pgvector_test

import (
	"errors"
	"math"
	"strings"
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
	v, err := pgvector.FromFloat64s([]float64{1.25, 1e-50, -2}, nil)
	wantVector(t, v, err, "[1.25,0,-2]")
	v, err = pgvector.FromInt32s([]int32{1, 16777217}, []float32{9})
	wantVector(t, v, err, "[9,1,1.6777216e+07]")
	v, err = pgvector.FromInt64s([]int64{-3}, nil)
	wantVector(t, v, err, "[-3]")
	v, err = pgvector.FromNumerics([]string{"123456789012345678", "-0.5"}, nil)
	wantVector(t, v, err, "[1.2345679e+17,-0.5]")
	v, err = pgvector.FromFloat32s([]float32{1, 2}, nil)
	wantVector(t, v, err, "[1,2]")

	_, err = pgvector.FromFloat64s([]float64{1e39}, nil)
	wantError(t, err, pgvector.CodeData, "infinite value not allowed in vector")
	_, err = pgvector.FromFloat64s([]float64{math.NaN()}, nil)
	wantError(t, err, pgvector.CodeData, "NaN not allowed in vector")
	_, err = pgvector.FromFloat32s(nil, nil)
	wantError(t, err, pgvector.CodeData, "vector must have at least 1 dimension")
	_, err = pgvector.FromInt32s(make([]int32, 16001), nil)
	wantError(t, err, pgvector.CodeLimit, "vector cannot have more than 16000 dimensions")
	_, err = pgvector.FromNumerics([]string{"1e39"}, nil)
	wantError(t, err, pgvector.CodeOutOfRange, `"1e39" is out of range for type real`)
	_, err = pgvector.FromNumerics([]string{"NaN"}, nil)
	wantError(t, err, pgvector.CodeData, "NaN not allowed in vector")
	wantError(t, pgvector.NullElement(), pgvector.CodeNull, "array must not contain nulls")
	wantError(t, pgvector.NotFlat(), pgvector.CodeData, "array must be 1-D")
}

func TestModifiers(t *testing.T) {
	for text, want := range map[string]string{
		"0": "22023 dimensions for type vector must be at least 1", "-1": "22023 dimensions for type vector must be at least 1",
		"16001": "22023 dimensions for type vector cannot exceed 16000", "1000000001": "22023 dimensions for type vector cannot exceed 16000",
		"a": `22P02 invalid input syntax for type integer: "a"`, "99999999999": `22003 value "99999999999" is out of range for type integer`,
	} {
		_, err := pgvector.ParseModifier(text)
		code, message, _ := strings.Cut(want, " ")
		wantError(t, err, code, message)
	}
	if n, err := pgvector.ParseModifier(" 16000 "); n != 16000 || err != nil {
		t.Error(n, err)
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
			var sums [2]pgvector.Sum
			var avgs [2]pgvector.Avg
			var sumErr, avgErr error
			for i, v := range c.in {
				part := 0
				if i >= split {
					part = 1
				}
				sumErr = errors.Join(sumErr, sums[part].Add(v))
				avgErr = errors.Join(avgErr, avgs[part].Add(v))
			}
			sumErr = errors.Join(sumErr, sums[0].Merge(&sums[1]))
			avgErr = errors.Join(avgErr, avgs[0].Merge(&avgs[1]))
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
	var s pgvector.Sum
	if err := errors.Join(s.Add(first), s.Add(first)); err != nil || first[0] != 1 || s.Value()[0] != 2 {
		t.Error(err, first, s.Value())
	}
}

func TestBitStrings(t *testing.T) {
	v := []float32{1, -1, 0, 2, 5, 5, 5, 5, .5}
	text, packed := pgvector.Quantize(v), pgvector.QuantizeBits(v, nil)
	again, err := pgvector.PackBits(text, nil)
	if text != "100111111" || err != nil || string(again) != string(packed) || packed[0] != 0b10011111 || packed[1] != 0b10000000 {
		t.Errorf("%s %08b %08b %v", text, packed, again, err)
	}
	_, _, err = pgvector.BitDistances("101", "10")
	wantError(t, err, pgvector.CodeData, "different bit lengths 3 and 2")
	_, err = pgvector.PackBits("102", nil)
	wantError(t, err, pgvector.CodeSyntax, `"2" is not a valid binary digit`)
	for _, c := range []struct {
		a, b             string
		hamming, jaccard float64
	}{{"1010", "0101", 4, 1}, {"0000", "0000", 0, 1}, {"", "", 0, 1}, {"101", "110", 2, 1 - 1.0/3}, {strings.Repeat("1", 65), strings.Repeat("1", 64) + "0", 1, 0.01538461538461533}} {
		h, j, err := pgvector.BitDistances(c.a, c.b)
		if err != nil || h != c.hamming || math.Abs(j-c.jaccard) > 1e-12 {
			t.Errorf("%s %s: %v %v %v", c.a, c.b, h, j, err)
		}
	}
}
