package kernel

// Level is a set of instructions that a kernel may use.
type Level int

// The levels, each with all that the one before has.
const (
	Plain  Level = iota // Go alone
	AVX2                // AVX2, FMA, F16C, POPCNT, BMI1
	AVX512              // AVX-512 F, BW, DQ, VL, VBMI, VNNI and VPOPCNTDQ, as since Ice Lake and Zen 4
)

// String gives the level's name.
func (l Level) String() string { return [...]string{"plain Go", "AVX2", "AVX-512"}[l] }

// best is the highest level of this machine, level the one in use.
var (
	best  = detect()
	level = best
)

// Best is the highest level of this machine, which is in use unless Use said otherwise.
func Best() Level { return best }

// Use makes all calls from now on use a level, at most the highest of this machine, and gives the level used before. It
// is for tests and measurements; no other call may be under way.
func Use(l Level) (before Level) {
	before, level = level, min(l, best)
	return before
}

//go:generate go run -C gen .
