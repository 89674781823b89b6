package singlevalue_test

import (
	"encoding/hex"
	"math"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"github.com/overlakedb/overlake/internal/lake/singlevalue"
)

// TestEncode has the examples by hand, from the rules of the specification: little-endian numbers, and decimals as the
// shortest two's complement, big-endian.
func TestEncode(t *testing.T) {
	decimal := decimal128.FromI64
	for _, c := range []struct {
		value any
		want  string
	}{
		{true, "01"}, {false, "00"},
		{int32(34), "22000000"}, {int32(-2), "feffffff"},
		{int64(34), "2200000000000000"},
		{float32(1), "0000803f"}, {math.Inf(-1), "000000000000f0ff"},
		{"é", "c3a9"}, {[]byte{7}, "07"},
		{decimal(0), "00"}, {decimal(127), "7f"}, {decimal(128), "0080"}, {decimal(1420), "058c"},
		{decimal(-1), "ff"}, {decimal(-128), "80"}, {decimal(-129), "ff7f"}, {decimal(-256), "ff00"},
	} {
		got, ok := singlevalue.Encode(c.value)
		if !ok || hex.EncodeToString(got) != c.want {
			t.Errorf("%T %v: %x, %v, want %s", c.value, c.value, got, ok, c.want)
		}
	}
	for _, none := range []any{nil, []byte(nil), 5, struct{}{}} {
		if got, ok := singlevalue.Encode(none); ok {
			t.Errorf("%T %v: %x", none, none, got)
		}
	}
}
