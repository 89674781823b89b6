package predicate

import (
	"encoding/binary"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/overlakedb/overlake/internal/errs"
)

// KindOf says how the values of an Arrow type become keys; NoKeys when they have none. A dictionary has the keys of its
// values, a UUID is its sixteen bytes. Unsigned 64-bit numbers have none, because they are no int64.
func KindOf(t arrow.DataType) KeyKind {
	switch t.ID() {
	case arrow.BOOL, arrow.INT8, arrow.INT16, arrow.INT32, arrow.INT64, arrow.UINT8, arrow.UINT16, arrow.UINT32,
		arrow.DATE32, arrow.TIME32, arrow.TIME64, arrow.TIMESTAMP:
		return Ints
	case arrow.FLOAT16, arrow.FLOAT32, arrow.FLOAT64:
		return Floats
	case arrow.DECIMAL128:
		return Decimals
	case arrow.STRING, arrow.LARGE_STRING, arrow.BINARY, arrow.LARGE_BINARY, arrow.FIXED_SIZE_BINARY:
		return Bytes
	case arrow.DICTIONARY:
		return KindOf(t.(*arrow.DictionaryType).ValueType)
	case arrow.EXTENSION:
		if e := t.(arrow.ExtensionType); e.ExtensionName() == "arrow.uuid" {
			return KindOf(e.StorageType())
		}
	}
	return NoKeys
}

// KeyArray reads an Arrow array as keys. It holds no reference: it is good for as long as the array is.
type KeyArray struct {
	kind  KeyKind
	array arrow.Array       // the values, or those of the dictionary
	at    *array.Dictionary // which of them; nil where each row has its own
	words []uint64          // the keys of a dictionary's values, of Ints and Floats
}

// KeysOf reads an array; one whose values have no keys is Unsupported.
func KeysOf(a arrow.Array) (KeyArray, error) {
	k := KeyArray{kind: KindOf(a.DataType()), array: a}
	if k.kind == NoKeys {
		return k, errs.New(errs.Unsupported, "predicate.keys", "values of type "+a.DataType().String()+" have no order to index by")
	}
	if d, ok := k.array.(*array.Dictionary); ok {
		k.at, k.array = d, d.Dictionary()
	}
	if e, ok := k.array.(array.ExtensionArray); ok {
		k.array = e.Storage()
	}
	if k.at != nil && k.wordy() {
		k.words = make([]uint64, k.array.Len())
		values := KeyArray{kind: k.kind, array: k.array}
		values.Words(k.words, 0)
	}
	return k, nil
}

// Kind is the kind of the keys.
func (k *KeyArray) Kind() KeyKind { return k.kind }

// Len is the number of rows.
func (k *KeyArray) Len() int {
	if k.at != nil {
		return k.at.Len()
	}
	return k.array.Len()
}

// MayHaveNulls tells whether some row may be NULL.
func (k *KeyArray) MayHaveNulls() bool {
	return k.array.NullN() > 0 || k.at != nil && k.at.NullN() > 0
}

// IsNull tells whether a row is NULL, which has no key.
func (k *KeyArray) IsNull(i int) bool {
	if k.at == nil {
		return k.array.IsNull(i)
	}
	return k.at.IsNull(i) || k.array.IsNull(k.at.GetValueIndex(i))
}

func (k *KeyArray) wordy() bool { return k.kind == Ints || k.kind == Floats }

// Words writes the keys of the rows from first on, as numbers, for as many as dst has room. It is for Ints and Floats,
// whose keys are eight bytes: the number in big endian. In the place of a NULL stands anything.
func (k *KeyArray) Words(dst []uint64, first int) {
	if k.at != nil {
		for i := range dst {
			dst[i] = 0
			if !k.IsNull(first + i) {
				dst[i] = k.words[k.at.GetValueIndex(first+i)]
			}
		}
		return
	}
	switch a := k.array.(type) {
	case *array.Int64:
		ints(dst, a.Int64Values()[first:])
	case *array.Int32:
		ints(dst, a.Int32Values()[first:])
	case *array.Int16:
		ints(dst, a.Int16Values()[first:])
	case *array.Int8:
		ints(dst, a.Int8Values()[first:])
	case *array.Uint32:
		ints(dst, a.Uint32Values()[first:])
	case *array.Uint16:
		ints(dst, a.Uint16Values()[first:])
	case *array.Uint8:
		ints(dst, a.Uint8Values()[first:])
	case *array.Date32:
		ints(dst, a.Date32Values()[first:])
	case *array.Time32:
		ints(dst, a.Time32Values()[first:])
	case *array.Time64:
		ints(dst, a.Time64Values()[first:])
	case *array.Timestamp:
		ints(dst, a.TimestampValues()[first:])
	case *array.Boolean:
		for i := range dst {
			dst[i] = OrderInt(0)
			if a.Value(first + i) {
				dst[i] = OrderInt(1)
			}
		}
	case *array.Float64:
		for i, v := range a.Float64Values()[first : first+len(dst)] {
			dst[i] = OrderFloat(v)
		}
	case *array.Float32:
		for i, v := range a.Float32Values()[first : first+len(dst)] {
			dst[i] = OrderFloat(float64(v))
		}
	case *array.Float16:
		for i, v := range a.Values()[first : first+len(dst)] {
			dst[i] = OrderFloat(float64(v.Float32()))
		}
	}
}

func ints[T ~int64 | ~int32 | ~int16 | ~int8 | ~uint32 | ~uint16 | ~uint8](dst []uint64, values []T) {
	for i, v := range values[:len(dst)] {
		dst[i] = OrderInt(int64(v))
	}
}

// Append appends the key of a row that is not NULL.
func (k *KeyArray) Append(dst []byte, i int) []byte {
	switch {
	case k.kind == Bytes:
		return append(dst, k.Bytes(i)...)
	case k.wordy():
		var w [1]uint64
		k.Words(w[:], i)
		return binary.BigEndian.AppendUint64(dst, w[0])
	}
	if k.at != nil {
		i = k.at.GetValueIndex(i)
	}
	return AppendDecimal(dst, k.array.(*array.Decimal128).Value(i))
}

// Bytes is the key of a row that is not NULL, of the kind Bytes: the array's own memory, which is not to be written.
func (k *KeyArray) Bytes(i int) []byte {
	if k.at != nil {
		i = k.at.GetValueIndex(i)
	}
	switch a := k.array.(type) {
	case *array.String:
		return textBytes(a.Value(i))
	case *array.LargeString:
		return textBytes(a.Value(i))
	case *array.Binary:
		return a.Value(i)
	case *array.LargeBinary:
		return a.Value(i)
	case *array.FixedSizeBinary:
		return a.Value(i)
	}
	return nil
}

func textBytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
