package segment

import (
	"runtime/debug"

	"github.com/overlakedb/overlake/internal/errs"
)

// guarded is switched off in tests that look for panics.
var guarded = true

// guard makes an error of a fault in mapped memory, when a file was cut short, and of an index out of its range, when bytes
// were changed after they were checked.
func guard(op string, err *error) func() {
	if !guarded {
		return func() {}
	}
	old := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(old)
		if x := recover(); x != nil {
			*err = errs.With(errs.Newf(errs.Corrupt, op, "%v", x), errs.Hint("REINDEX builds the index anew"))
		}
	}
}
