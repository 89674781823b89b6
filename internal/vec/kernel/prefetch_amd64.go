//go:build !purego

package kernel

// Prefetch begins to load the cache lines of a row, which begins at one, and does not wait for them.
//
//go:noescape
func Prefetch(row []uint32)
