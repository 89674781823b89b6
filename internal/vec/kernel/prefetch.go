//go:build !amd64 || purego

package kernel

// Prefetch does nothing here: it is a hint to processors that a row is read soon.
func Prefetch(row []uint32) {}
