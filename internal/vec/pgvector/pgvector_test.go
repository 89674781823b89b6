package pgvector_test

import (
	"strings"
	"testing"

	"github.com/overlakedb/overlake/internal/vec/pgvector"
)

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"[1]": "[1]", " [ 1 , 2 ] ": "[1,2]", "[1.0,2.50]": "[1,2.5]", "[1.,.5]": "[1,0.5]", "[1e+2]": "[100]", "[0.333333333333]": "[0.33333334]",
		"[16777217]": "[1.6777216e+07]", "[123456789]": "[1.2345679e+08]", "[3.4028235e38]": "[3.4028235e+38]", "[1e-45]": "[1e-45]", "[1e-46]": "[0]",
		"[0.0001,0.00001]": "[0.0001,1e-05]", "[-0]": "[-0]", "[0x10]": "[16]", "[0x1p-2,0X.8]": "[0.25,0.5]", "[1e5,999999,1e6,1234567]": "[100000,999999,1e+06,1.234567e+06]", "[\t1\v,\r2\f]\n": "[1,2]", "[+1]": "[1]", "[9.999999e5,0.00099999]": "[999999.9,0.00099999]", "[-7,8]": "[-7,8]",
	} {
		v, err := pgvector.Vector.Parse(in, nil)
		if err != nil || pgvector.Format(v) != want {
			t.Errorf("%q is %v, %v, want %s", in, pgvector.Format(v), err, want)
		}
	}
	for in, want := range map[string]string{
		"": "invalid input syntax", "[1_000]": "invalid input syntax", "[1,": "invalid input syntax", "[1,2": "invalid input syntax", "(1,2)": "invalid input syntax", "[1,,2]": "invalid input syntax",
		"[,1]": "invalid input syntax", "[1,]": "invalid input syntax", "[a]": "invalid input syntax", "[1 2]": "invalid input syntax", "[0x]": "invalid input syntax", "[1e]": "invalid input syntax", "[+]": "invalid input syntax", "[1]x": "invalid input syntax", "[1]]": "invalid input syntax",
		"[\x001]": "invalid input syntax", "[": "invalid input syntax", "[1\x00]": "invalid input syntax", "[.]": "invalid input syntax",
		"[]": "at least 1 dimension", "[ ]": "at least 1 dimension", "[nan]": "NaN not allowed", "[-NaN(x_1)]": "NaN not allowed", "[inf]": "infinite value", "[1e9999]": "\"1e9999\" is out of range for type vector", "[+Infinity]": "infinite value", "[1e39]": "out of range",
	} {
		if _, err := pgvector.Vector.Parse(in, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q gave %v, want %s", in, err, want)
		}
	}
	if _, err := pgvector.Vector.Parse("["+strings.Repeat("1,", 16000)+"1]", nil); err == nil || !strings.Contains(err.Error(), "16000") {
		t.Error(err)
	}
}

func TestArithmetic(t *testing.T) {
	a, b := []float32{1, 2, 3}, []float32{4, 5, 6}
	for name, c := range map[string]struct {
		f    func(a, b, into []float32) ([]float32, error)
		want string
	}{"+": {pgvector.Vector.Add, "[5,7,9]"}, "-": {pgvector.Vector.Sub, "[-3,-3,-3]"}, "*": {pgvector.Vector.Mul, "[4,10,18]"}, "||": {pgvector.Vector.Concat, "[1,2,3,4,5,6]"}} {
		if got, err := c.f(a, b, nil); err != nil || pgvector.Format(got) != c.want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if _, err := pgvector.Vector.Add([]float32{3e38}, []float32{3e38}, nil); err == nil || !strings.Contains(err.Error(), "overflow") {
		t.Error(err)
	}
	if _, err := pgvector.Vector.Mul([]float32{1e-40}, []float32{1e-40}, nil); err == nil || !strings.Contains(err.Error(), "underflow") {
		t.Error(err)
	}
	if _, err := pgvector.Vector.Sub(a, b[:2], nil); err == nil || !strings.Contains(err.Error(), "different vector dimensions 3 and 2") {
		t.Error(err)
	}
	for _, c := range []struct {
		start, count int32
		want         string
	}{{1, 2, "[1,2]"}, {2, 9, "[2,3]"}, {-1, 3, "[1]"}, {1, 0, ""}, {4, 1, ""}, {-2147483648, 2147483647, ""}, {1, 2147483647, "[1,2,3]"}} {
		got, err := pgvector.Vector.Subvector(a, c.start, c.count)
		if (err != nil) != (c.want == "") || err == nil && pgvector.Format(got) != c.want {
			t.Errorf("subvector(%d, %d) = %v, %v", c.start, c.count, got, err)
		}
	}
	if v, err := pgvector.Vector.Normalize([]float32{3, 4}, nil); err != nil || pgvector.Format(v) != "[0.6,0.8]" {
		t.Error(v, err)
	}
	if pgvector.Compare(a, a[:2]) != 1 || pgvector.Compare(a, b) != -1 || pgvector.Compare(a, a) != 0 {
		t.Error("Compare")
	}
	// The same with the precision of 16 bits.
	h := pgvector.Halfvec
	v, err := h.Add([]float32{2048}, []float32{1}, nil)
	wantVector(t, v, err, "[2048]")
	v, err = h.Sub([]float32{0.099975586, 0.19995117}, []float32{0.19995117, 0.099975586}, nil)
	wantVector(t, v, err, "[-0.099975586,0.099975586]")
	v, err = h.Normalize([]float32{3, 4}, nil)
	wantVector(t, v, err, "[0.60009766,0.7998047]")
	_, err = h.Mul([]float32{300}, []float32{300}, nil)
	wantError(t, err, pgvector.CodeOutOfRange, "value out of range: overflow")
	_, err = h.Mul([]float32{1e-5}, []float32{1e-5}, nil)
	wantError(t, err, pgvector.CodeOutOfRange, "value out of range: underflow")
	_, err = h.Add(a, b[:2], nil)
	wantError(t, err, pgvector.CodeData, "different halfvec dimensions 3 and 2")
	_, err = h.Subvector(a, 4, 1)
	wantError(t, err, pgvector.CodeData, "halfvec must have at least 1 dimension")
	_, err = h.Concat(make([]float32, 16000), a, nil)
	wantError(t, err, pgvector.CodeLimit, "halfvec cannot have more than 16000 dimensions")
}

func TestHalfText(t *testing.T) {
	for in, want := range map[string]string{
		"[2049,2051]": "[2048,2052]", "[1.0009765625]": "[1.0009766]", "[6e-8,1e-8,-0]": "[5.9604645e-08,0,-0]", "[0.33333]": "[0.33325195]", "[65519.99]": "[65504]",
		"[0.1]": "[0.099975586]",
	} {
		v, err := pgvector.Halfvec.Parse(in, nil)
		wantVector(t, v, err, want)
	}
	_, err := pgvector.Halfvec.Parse("[65520]", nil)
	wantError(t, err, pgvector.CodeOutOfRange, `"65520" is out of range for type halfvec`)
	_, err = pgvector.Halfvec.Parse("[ -1e+5]", nil)
	wantError(t, err, pgvector.CodeOutOfRange, `"-1e+5" is out of range for type halfvec`)
	_, err = pgvector.Halfvec.Parse("[inf]", nil)
	wantError(t, err, pgvector.CodeData, "infinite value not allowed in halfvec")
	_, err = pgvector.Halfvec.Parse("[1", nil)
	wantError(t, err, pgvector.CodeSyntax, `invalid input syntax for type halfvec: "[1"`)
}

func FuzzParse(f *testing.F) {
	f.Add("[1,2.5,-3e-5]")
	f.Fuzz(func(t *testing.T, s string) {
		for _, d := range []*pgvector.Dense{pgvector.Vector, pgvector.Halfvec} {
			v, err := d.Parse(s, nil)
			if err != nil {
				continue
			}
			again, err := d.Parse(pgvector.Format(v), nil)
			if err != nil || pgvector.Compare(v, again) != 0 || d.Check(v) != nil {
				t.Errorf("%q → %v → %v, %v", s, v, again, err)
			}
		}
	})
}
