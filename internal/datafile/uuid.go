package datafile

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/uuid"
)

// parseUUIDs turns UUIDs written as text into their 16 bytes.
func parseUUIDs(s *array.String) (arrow.Array, error) {
	b := array.NewFixedSizeBinaryBuilder(memory.DefaultAllocator, &arrow.FixedSizeBinaryType{ByteWidth: 16})
	defer b.Release()
	for i := range s.Len() {
		if s.IsNull(i) {
			b.AppendNull()
			continue
		}
		u, err := uuid.Parse(s.Value(i))
		if err != nil {
			return nil, fmt.Errorf("%q is no UUID", s.Value(i))
		}
		b.Append(u[:])
	}
	return b.NewArray(), nil
}
