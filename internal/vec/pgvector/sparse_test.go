package pgvector_test

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/pgvector"
)

func TestSparseText(t *testing.T) {
	for in, want := range map[string]string{
		"{1:1.5,3:3.5}/5": "{1:1.5,3:3.5}/5", "{}/4": "{}/4", "{1:-0,2:0}/3": "{}/3", " { 2 : -1 , 1 : 1e5 } / 3 ": "{1:100000,2:-1}/3", "{+1:+1}/+2": "{1:1}/2",
		"{1000000000:1e-45}/1000000000": "{1000000000:1e-45}/1000000000", "{1:0x10}/1": "{1:16}/1", "{ }/1": "{}/1", "{1:1e-46}/2": "{}/2",
	} {
		var v vec.Sparse
		if err := pgvector.ParseSparse(in, &v); err != nil || pgvector.FormatSparse(&v) != want {
			t.Errorf("%q is %s, %v, want %s", in, pgvector.FormatSparse(&v), err, want)
		}
	}
	for in, want := range map[string]string{
		"{0:1}/2": "22000 sparsevec index out of bounds", "{3:1}/2": "22000 sparsevec index out of bounds", "{2147483648:1}/2": "22000 sparsevec index out of bounds",
		"{-1:1}/2": "22000 sparsevec index out of bounds", "{1:1,1:2}/2": "22000 sparsevec indices must not contain duplicates",
		"{}/0": "22000 sparsevec must have at least 1 dimension", "{1:1}/-1": "22000 sparsevec must have at least 1 dimension",
		"{}/1000000001": "54000 sparsevec cannot have more than 1000000000 dimensions", "{}/99999999999999999999": "54000 sparsevec cannot have more than 1000000000 dimensions",
		"{1:3.5e38}/1": `22003 "3.5e38" is out of range for type sparsevec`, "{1:inf}/1": "22000 infinite value not allowed in sparsevec", "{1:nan}/1": "22000 NaN not allowed in sparsevec",
		"{" + strings.Repeat("1:0,", 16000) + "1:0}/9": "54000 sparsevec cannot have more than 16000 non-zero elements",
	} {
		code, message, _ := strings.Cut(want, " ")
		wantError(t, pgvector.ParseSparse(in, new(vec.Sparse)), code, message)
	}
	for _, in := range []string{"", "{", "{1", "{1:", "{1:1", "{1:1}", "{1:1}/", "{1:1}/a", "{1:1}/2x", "{1}/2", "{1:}/2", "{:1}/2", "{a:1}/2", "{1:a}/2", "{1:1,}/2", "{,1:1}/2", "{1:1 2:2}/2",
		"1:1/2", "{1:1}//2", "[1]", "{1:1}/2}", "{1:1\x00}/2"} {
		wantError(t, pgvector.ParseSparse(in, new(vec.Sparse)), pgvector.CodeSyntax, fmt.Sprintf("invalid input syntax for type sparsevec: \"%s\"", in))
	}
}

func TestSparseConversions(t *testing.T) {
	var v vec.Sparse
	if err := pgvector.SparseFromNumbers([]int32{0, 1, 0, 2}, &v); err != nil || pgvector.FormatSparse(&v) != "{2:1,4:2}/4" {
		t.Error(v, err)
	}
	d, err := pgvector.Vector.FromSparse(&v, nil)
	wantVector(t, d, err, "[0,1,0,2]")
	d, err = pgvector.Halfvec.FromSparse(&vec.Sparse{Dim: 2, Index: []int32{1}, Value: []float32{.1}}, nil)
	wantVector(t, d, err, "[0,0.099975586]")
	_, err = pgvector.Halfvec.FromSparse(&vec.Sparse{Dim: 2, Index: []int32{1}, Value: []float32{1e5}}, nil)
	wantError(t, err, pgvector.CodeOutOfRange, `"100000" is out of range for type halfvec`)
	_, err = pgvector.Vector.FromSparse(&vec.Sparse{Dim: 16001}, nil)
	wantError(t, err, pgvector.CodeLimit, "vector cannot have more than 16000 dimensions")
	v = vec.Sparse{Dim: 9, Index: []int32{1, 6}, Value: []float32{1e-38, 3e38}}
	if err := pgvector.NormalizeSparse(&v); err != nil || pgvector.FormatSparse(&v) != "{7:1}/9" {
		t.Error(v, err)
	}
	wantError(t, pgvector.SameSparse(&vec.Sparse{Dim: 2}, &vec.Sparse{Dim: 3}), pgvector.CodeData, "different sparsevec dimensions 2 and 3")
	wantError(t, pgvector.CheckSparseDim(&vec.Sparse{Dim: 2}, 3), pgvector.CodeData, "expected 3 dimensions, not 2")
	wantError(t, pgvector.CheckSparse(&vec.Sparse{Dim: 3, Index: []int32{1, 0}, Value: []float32{1, 1}}), pgvector.CodeData, "sparsevec indices must be in ascending order")
	wantError(t, pgvector.CheckSparse(&vec.Sparse{Dim: 3, Index: []int32{1}, Value: []float32{0}}), pgvector.CodeData, "sparsevec values must not be zero")
	wantError(t, pgvector.CheckSparse(&vec.Sparse{Dim: 3, Index: []int32{1}}), pgvector.CodeData, "sparsevec has 1 indices and 0 values")
}

// TestSparseKeySorts: keys compare as the values do, and as the dense vectors do; and they give the value back.
func TestSparseKeySorts(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 32))
	var all []vec.Sparse
	var dense [][]float32
	for range 400 {
		d := make([]float32, 1+rng.IntN(5))
		for i := range d {
			d[i] = []float32{0, 0, 1, -1, 2.5, -1e-45, 3e38, -3e38}[rng.IntN(8)]
		}
		var v vec.Sparse
		if err := pgvector.SparseFromNumbers(d, &v); err != nil {
			t.Fatal(err)
		}
		all, dense = append(all, v), append(dense, d)
	}
	for i := range all {
		a := pgvector.AppendSparseKey(nil, &all[i])
		var again vec.Sparse
		if err := pgvector.ParseSparseKey(a, &again); err != nil || pgvector.FormatSparse(&again) != pgvector.FormatSparse(&all[i]) {
			t.Fatalf("%v came back as %v, %v", all[i], again, err)
		}
		for k := range all {
			b := pgvector.AppendSparseKey(nil, &all[k])
			want := pgvector.Compare(dense[i], dense[k])
			if got := bytes.Compare(a, b); got != want || pgvector.CompareSparse(&all[i], &all[k]) != want {
				t.Fatalf("%v and %v compare as %d and %d, want %d", dense[i], dense[k], got, pgvector.CompareSparse(&all[i], &all[k]), want)
			}
		}
	}
}

func FuzzParseSparse(f *testing.F) {
	f.Add("{1:1.5,3:-2e-5}/5")
	f.Add("{3:0,2:1}/1000000000")
	f.Fuzz(func(t *testing.T, s string) {
		var v, again vec.Sparse
		if pgvector.ParseSparse(s, &v) != nil {
			return
		}
		if err := pgvector.ParseSparse(pgvector.FormatSparse(&v), &again); err != nil || pgvector.CompareSparse(&v, &again) != 0 || pgvector.CheckSparse(&v) != nil {
			t.Errorf("%q → %v → %v, %v", s, v, again, err)
		}
	})
}

func FuzzParseSparseKey(f *testing.F) {
	v := vec.Sparse{Dim: 9, Index: []int32{1, 6}, Value: []float32{-1, 3}}
	f.Add(pgvector.AppendSparseKey(nil, &v))
	f.Fuzz(func(t *testing.T, b []byte) {
		var v vec.Sparse
		if err := pgvector.ParseSparseKey(b, &v); err != nil {
			if !errs.Is(err, errs.Corrupt) {
				t.Error(err)
			}
			return
		}
		if again := pgvector.AppendSparseKey(nil, &v); !bytes.Equal(again, b) {
			t.Errorf("%x → %v → %x", b, v, again)
		}
	})
}

func FuzzPackBits(f *testing.F) {
	f.Add("1010", uint8(3))
	f.Fuzz(func(t *testing.T, s string, n uint8) {
		b, err := pgvector.PackBits(s, nil)
		if (err == nil) != (strings.Trim(s, "01") == "") {
			t.Fatalf("%q gave %v", s, err)
		}
		if err != nil {
			return
		}
		want, _ := pgvector.PackBits((s + strings.Repeat("0", int(n)))[:n], nil)
		if got := pgvector.ResizeBits(b, len(s), int(n)); cmp.Compare(string(got), string(want)) != 0 {
			t.Errorf("%q as bit(%d) is %08b, want %08b", s, n, got, want)
		}
	})
}
