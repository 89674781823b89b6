// Package singlevalue answers: how does Iceberg write one value as bytes?
//
// The form is the "binary single-value serialization" of the Iceberg specification, appendix D; manifests hold the bounds of
// columns in it.
package singlevalue

import (
	"encoding/binary"
	"math"
	"math/big"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// Encode gives the bytes of a value: a boolean, an int32, int64, float32 or float64, a text, bytes, or a decimal of any number
// of digits. Dates and times are the integers that they are held as. false for a value of another kind, and for no bytes.
func Encode(v any) ([]byte, bool) {
	switch v := v.(type) {
	case bool:
		if v {
			return []byte{1}, true
		}
		return []byte{0}, true
	case int32:
		return binary.LittleEndian.AppendUint32(nil, uint32(v)), true
	case int64:
		return binary.LittleEndian.AppendUint64(nil, uint64(v)), true
	case float32:
		return binary.LittleEndian.AppendUint32(nil, math.Float32bits(v)), true
	case float64:
		return binary.LittleEndian.AppendUint64(nil, math.Float64bits(v)), true
	case string:
		return []byte(v), true
	case []byte:
		return v, v != nil
	case decimal128.Num:
		return twosComplement(v.BigInt()), true
	}
	return nil, false
}

// twosComplement is a number as the shortest big-endian two's complement.
func twosComplement(n *big.Int) []byte {
	if n.Sign() >= 0 {
		b := n.Bytes()
		if len(b) == 0 || b[0]&0x80 != 0 {
			b = append([]byte{0}, b...)
		}
		return b
	}
	size := uint(len(n.Bytes()))
	for {
		b := new(big.Int).Add(n, new(big.Int).Lsh(big.NewInt(1), 8*size)).Bytes()
		if uint(len(b)) == size && b[0]&0x80 != 0 {
			return b
		}
		size++
	}
}
