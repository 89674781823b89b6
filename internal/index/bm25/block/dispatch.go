//go:build !amd64 || purego

package block

import "github.com/overlakedb/overlake/internal/vec/kernel"

const best = kernel.Plain

func unpack(to *Values, packed []byte, n int, width uint) { plainUnpack(to, packed, n, width) }

func sums(to *Values, packed []byte, n int, width uint, first uint32) {
	plainSums(to, packed, n, width, first)
}

func fromBits(to *Values, set []byte, n int, first uint32) { plainFromBits(to, set, n, first) }
