package overlake

import "github.com/overlakedb/overlake/internal/errs"

// Error is the error type of every failure this package returns: a kind, the operation, the object, the cause and, where
// something can be done about it, a hint.
type Error = errs.Error

// Kind is the closed list of failures.
type Kind = errs.Kind

// The kinds of failure.
const (
	KindInternal        = errs.Internal
	KindInvalid         = errs.Invalid
	KindNotFound        = errs.NotFound
	KindExists          = errs.Exists
	KindConflict        = errs.Conflict
	KindDenied          = errs.Denied
	KindUnauthenticated = errs.Unauthenticated
	KindUnsupported     = errs.Unsupported
	KindCorrupt         = errs.Corrupt
	KindExhausted       = errs.Exhausted
	KindUnavailable     = errs.Unavailable
	KindCanceled        = errs.Canceled
)

// KindOf returns the kind of an error; errors of other packages are classified as far as they can be.
func KindOf(err error) Kind { return errs.KindOf(err) }

// HintOf returns what the error advises to do next, or the empty string.
func HintOf(err error) string { return errs.HintOf(err) }
