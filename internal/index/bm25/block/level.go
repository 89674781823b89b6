package block

import "github.com/overlakedb/overlake/internal/vec/kernel"

// level is the set of instructions in use.
var level = best

// Use makes all calls from now on use a level, at most the highest of this machine, and gives the level used before. It
// is for tests and measurements; no other call may be under way.
func Use(l kernel.Level) (before kernel.Level) {
	before, level = level, min(l, best)
	return before
}

//go:generate go run -C gen .
