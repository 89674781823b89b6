package kernel_test

import (
	"testing"

	"github.com/overlakedb/overlake/internal/vec/kernel"
)

// TestPrefetch has no result but that it comes back, whatever the row.
func TestPrefetch(t *testing.T) {
	row := []uint32{1, 2, 3}
	for range 3 {
		kernel.Prefetch(row)
		row = append(row, make([]uint32, 40)...)
	}
	kernel.Prefetch(nil)
	kernel.Prefetch(row[:0])
	if row[2] != 3 {
		t.Error("the row changed")
	}
}
