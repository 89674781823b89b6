package bitmap

import (
	"math"
	"math/rand/v2"
	"syscall"
	"testing"
)

// BenchmarkList writes and reads a list of 8,192 numbers.
func BenchmarkList(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	for name, next := range map[string]func() uint64{
		"geometric": func() uint64 { return uint64(math.Log(1-rng.Float64()) / math.Log(0.99)) },
		"bitmap":    func() uint64 { return uint64(rng.IntN(2)) },
		"uniform":   func() uint64 { return rng.Uint64N(1 << 20) },
		"wide":      func() uint64 { return uint64(rng.ExpFloat64() * (1 << 45)) },
	} {
		v := make([]uint64, 8192)
		for i := range v {
			v[i] = next()
		}
		list := pad(appendList(nil, v))
		cpu := func() float64 {
			var u syscall.Rusage
			if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
				b.Fatal(err)
			}
			return float64(u.Utime.Nano() + u.Stime.Nano())
		}
		b.Run(name+"/write", func(b *testing.B) {
			var dst []byte
			start := cpu()
			for b.Loop() {
				dst = appendList(dst[:0], v)
			}
			b.ReportMetric((cpu()-start)/float64(b.N)/float64(len(v)), "cpu-ns/number")
		})
		b.Run(name+"/read", func(b *testing.B) {
			start := cpu()
			for b.Loop() {
				if _, err := readList(v, list, 0); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric((cpu()-start)/float64(b.N)/float64(len(v)), "cpu-ns/number")
		})
	}
}
