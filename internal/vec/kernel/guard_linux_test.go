package kernel_test

import (
	"os"
	"syscall"
	"testing"
	"unsafe"
)

// guarded gives memory that ends where the next byte may not be touched: a kernel that reads or writes beyond its slices
// ends the test.
func guarded[T any](t testing.TB, n int) []T {
	t.Helper()
	var zero T
	size := n * int(unsafe.Sizeof(zero))
	page := os.Getpagesize()
	whole := (size + page - 1) / page * page
	b, err := syscall.Mmap(-1, 0, whole+page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(b) })
	if err := syscall.Mprotect(b[whole:], syscall.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	if n == 0 {
		return []T{}
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&b[whole-size])), n)
}
