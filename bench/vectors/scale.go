package main

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/overlakedb/overlake/bench/vectors/worker"
)

// scaled are the contenders whose work is shared by two workers, one of each family.
var scaled = []string{graphF32, inverted + " bit1+float32"}

// scale measures how much faster two workers are than one, so that the load of the machine does not decide. Of searches it is
// the processor time of one thread for all queries over that of the slower of two threads that share them. Of builds it is
// how many threads wanted to run on average, two at most, times how little more processor time that took.
func (w *workshop) scale(ctx context.Context) {
	if !made(w.set) {
		return
	}
	for _, c := range contenders(w.set) {
		if !slices.Contains(scaled, c.name) || ctx.Err() != nil {
			continue
		}
		one := w.enter([]*contender{c})
		if len(one) == 0 {
			continue
		}
		pair := *c
		pair.name += ", 2 workers"
		pair.build = maps.Clone(c.build)
		pair.build["workers"] = "2"
		two := w.enter([]*contender{&pair})
		if len(two) == 0 {
			continue
		}
		if width := two[0].built.Width; width > 0 {
			w.b.results.compare(fmt.Sprintf("%s: %s, build by two workers, times as fast", w.set.Name, c.name), min(width, 2)*one[0].built.CPU/two[0].built.CPU, "one worker", 1, "", least(1.8))
		} else {
			w.b.results.leave("%s: the system does not tell how many threads of a build wanted to run", c.name)
		}
		rows := w.set.Queries[0].Rows
		file, err := w.file("scale-queries", rows)
		if err != nil {
			w.b.say("%v", err)
			return
		}
		alone, shared := math.Inf(1), math.Inf(1)
		words := worker.Words{"queries": file, "count": fmt.Sprint(len(rows) / w.set.Dim), "k": fmt.Sprint(k)}
		for range max(w.b.rounds, 3) {
			words["threads"] = "1"
			_, took, err := one[0].process.Search(words)
			if err == nil {
				alone = min(alone, took)
				words["threads"] = "2"
				if _, took, err = one[0].process.Search(words); err == nil {
					shared = min(shared, took)
				}
			}
			if err != nil {
				w.fail(c, err)
				return
			}
		}
		w.b.results.compare(fmt.Sprintf("%s: %s, searches by two threads, times as fast", w.set.Name, c.name), alone/shared, "one thread", 1, "", least(1.8))
	}
}
