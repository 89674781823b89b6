package search

import (
	"cmp"
	"maps"
	"slices"

	"github.com/overlakedb/overlake/internal/row"
)

// A scan of a file need not read all of it: where the rows that an index names lie together, it reads the runs that hold
// them, each by itself. The engine leaves out row groups that lie outside of a run, whatever the statistics of their columns
// say. What is gained is the reading of the filter's columns, for the engine does not unpack others where the filter fails.

// Run is a run of rows of a file: from First on, before End.
type Run struct{ First, End int64 }

const (
	runBlock = 8192      // runs begin and end at multiples of it
	runGap   = 122_880   // fewer rows between two runs are read as well: it is the size of a row group that we write
	runAsk   = 0.5       // where more of the rows may match, the index is not asked where they lie
	runPrice = 1_500_000 // of a run, in nanoseconds: the engine opens the file once more
	runMost  = 64        // runs in one scan of a table; the files that gain most by them come first
)

// runsOf are the runs that hold all rows of a set, in a file of so many rows, and what reading only them gains, in
// nanoseconds; nil when reading all is no dearer.
func runsOf(set *row.Bitmap, rows int64) (runs []Run, gain float64) {
	read := int64(0)
	for first := range set.Blocks(runBlock) {
		end := min(first+runBlock, rows)
		if n := len(runs); n > 0 && first-runs[n-1].End < runGap {
			read += end - runs[n-1].End
			runs[n-1].End = end
			continue
		}
		runs = append(runs, Run{first, end})
		read += end - first
	}
	if gain = float64(rows-read)*scanValue - float64(len(runs))*runPrice; gain <= 0 || len(runs) > runMost {
		return nil, 0
	}
	return runs, gain
}

// RunRows is the number of rows in all runs.
func (a *Access) RunRows() (n int64) {
	for _, runs := range a.Runs {
		for _, r := range runs {
			n += r.End - r.First
		}
	}
	return n
}

// keepRuns leaves runs to the files that gain most by them; the others are read from end to end.
func (a *Access) keepRuns(gain map[int]float64) {
	left := runMost
	for _, f := range slices.SortedFunc(maps.Keys(a.Runs), func(x, y int) int { return cmp.Or(cmp.Compare(gain[y], gain[x]), x-y) }) {
		if left -= len(a.Runs[f]); left < 0 {
			delete(a.Runs, f)
		}
	}
}
