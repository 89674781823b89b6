//go:build !linux

package kernel_test

import "testing"

func guarded[T any](_ testing.TB, n int) []T { return make([]T, n) }
