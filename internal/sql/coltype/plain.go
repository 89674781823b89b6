package coltype

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/overlakedb/overlake/internal/declared"
)

// Plain tells whether the engine gives the values of a column in the form in which they are fetched.
func Plain(f arrow.Field) bool {
	if d, is := declared.Of(f); is {
		return d.Name == "vector"
	}
	switch t := f.Type.(type) {
	case *arrow.BooleanType, *arrow.Int32Type, *arrow.Int64Type, *arrow.Float32Type, *arrow.Float64Type, *arrow.StringType, *arrow.Date32Type:
		return true
	case *arrow.TimestampType:
		return t.Unit == arrow.Microsecond && t.TimeZone == ""
	}
	return false
}

// PlainField is the column of an answer that the engine gives for a plain one.
func PlainField(name string, f arrow.Field) arrow.Field {
	out := arrow.Field{Name: name, Type: f.Type, Nullable: true}
	if d, is := declared.Of(f); is {
		out.Type, out.Metadata = arrow.ListOf(arrow.PrimitiveTypes.Float32), arrow.NewMetadata([]string{declared.Key}, []string{d.Name})
	}
	return out
}

// PlainArray is an array under the type of a PlainField, which may name its elements otherwise. It takes the place of the array,
// which is released.
func PlainArray(a arrow.Array, f arrow.Field) arrow.Array {
	if f.Type.ID() != arrow.LIST {
		return a
	}
	defer a.Release()
	d := a.Data()
	data := array.NewData(f.Type, d.Len(), d.Buffers(), d.Children(), d.NullN(), d.Offset())
	defer data.Release()
	return array.MakeFromData(data)
}
