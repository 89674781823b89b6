package main

import (
	"os"
	"testing"
)

func setup(b *testing.B) (*ours, []*class) {
	dir := "/tmp/h-segment-out/scratch"
	os.MkdirAll(dir, 0o777)
	lines, _, err := tokenize("/tmp/h-segment/.cache/text/texts", dir+"/tokens", 200000)
	if err != nil {
		b.Fatal(err)
	}
	cs := classes()
	draw(cs, lines, 300, 1)
	o := &ours{}
	a, err := o.build(question{Texts: dir + "/tokens", Folder: dir})
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("build %.2f s, %d bytes", a.CPU, a.Bytes)
	return o, cs
}

func BenchmarkClasses(b *testing.B) {
	o, cs := setup(b)
	for _, c := range cs {
		for _, count := range []bool{false, true} {
			name := c.name
			if count {
				name += "+count"
			}
			b.Run(name, func(b *testing.B) {
				best := 1e9
				for b.Loop() {
					a, err := o.ask(question{Class: c.kind, Queries: c.queries, K: 10, Count: count})
					if err != nil {
						b.Fatal(err)
					}
					best = min(best, a.CPU)
				}
				b.ReportMetric(best/300*1e6, "us/query")
			})
		}
	}
}
