package bm25

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/overlakedb/overlake/internal/errs"
)

// Texts is a column of strings.
type Texts struct {
	arrow.Array
	value func(i int) string
}

// At is a text; false where it is NULL. It is valid as long as the array.
func (t Texts) At(i int) (string, bool) {
	if t.IsNull(i) {
		return "", false
	}
	return t.value(i), true
}

// TextsOf reads an array as texts: strings of any layout, dictionary encoded or not, and columns of nothing but NULL. Others
// are errs.Invalid.
func TextsOf(a arrow.Array) (Texts, error) {
	switch x := a.(type) {
	case array.StringLike:
		return Texts{a, x.Value}, nil
	case *array.Dictionary:
		if values, ok := x.Dictionary().(array.StringLike); ok {
			return Texts{a, func(i int) string { return values.Value(x.GetValueIndex(i)) }}, nil
		}
	case *array.Null:
		return Texts{a, func(int) string { return "" }}, nil
	}
	return Texts{}, errs.New(errs.Invalid, "bm25.texts", fmt.Sprintf("text search needs a column of strings, not %s", a.DataType()))
}

// HoldsTexts tells whether a column of a type can be searched for texts.
func HoldsTexts(t arrow.DataType) bool {
	switch t := t.(type) {
	case *arrow.StringType, *arrow.LargeStringType, *arrow.StringViewType:
		return true
	case *arrow.DictionaryType:
		return HoldsTexts(t.ValueType)
	}
	return false
}
