// Package errs answers one question: what kind of failure is this?
//
// Every error that leaves a room of Overlake carries a Kind from the closed list below, the operation that failed,
// the object it failed on, the cause, and, where somebody can do something about it, a hint. Doors (the command, the
// servers, the bindings) translate kinds into exit codes and status codes from one table; they never parse messages.
//
// Rooms return errors, they do not log them: the caller knows what a failure means.
package errs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// Kind is the closed list of failures. The zero value is Internal: an error nobody classified is our bug.
type Kind uint8

const (
	Internal        Kind = iota // a broken invariant of ours
	Invalid                     // the request itself is wrong: syntax, type, range
	NotFound                    // the named thing does not exist
	Exists                      // the named thing exists already
	Conflict                    // a concurrent change won; retrying the whole operation may succeed
	Denied                      // the caller may not do this
	Unauthenticated             // the caller is not known
	Unsupported                 // a valid request for something we do not do; the message names it
	Corrupt                     // stored bytes are not what their format says
	Exhausted                   // a budget (memory, disk, quota, time slots) is used up
	Unavailable                 // a store or service did not answer; retrying may succeed
	Canceled                    // the caller gave up or its deadline passed
)

var kindNames = [...]string{
	"internal error", "invalid", "not found", "already exists", "conflict", "denied", "unauthenticated",
	"unsupported", "corrupt", "exhausted", "unavailable", "canceled",
}

// String returns the lower-case name of the kind as users see it.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Error is a failure with everything a caller or an operator needs to act on it.
type Error struct {
	Kind   Kind
	Op     string // what was being done, as room.act: "lake.append"
	Object string // what it was done to: a table, a file, a column
	Hint   string // what to do next; empty when there is nothing useful to say
	Err    error  // the cause
}

// Error prints object, cause and kind, without the hint: doors print the hint on its own line.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Object != "" {
		b.WriteString(e.Object)
		b.WriteString(": ")
	}
	if e.Err != nil {
		b.WriteString(e.Err.Error())
	} else {
		b.WriteString(e.Kind.String())
	}
	return b.String()
}

// Unwrap gives errors.Is and errors.As the cause.
func (e *Error) Unwrap() error { return e.Err }

// Option adds a field to an error under construction.
type Option func(*Error)

// On names the object of the failure.
func On(object string) Option { return func(e *Error) { e.Object = object } }

// Hint says what to do next.
func Hint(format string, args ...any) Option {
	return func(e *Error) { e.Hint = sprintf(format, args) }
}

// New makes an error of the kind with a message as its cause.
func New(kind Kind, op, message string, opts ...Option) error {
	return build(kind, op, errors.New(message), opts)
}

// Newf is New with a formatted message and no options; use With to add them.
func Newf(kind Kind, op, format string, args ...any) error {
	return build(kind, op, fmt.Errorf(format, args...), nil)
}

// Wrap gives a cause a kind. A nil cause stays nil. A canceled context keeps the kind Canceled whatever kind is asked
// for, because the caller's wish explains the failure better than its place does.
func Wrap(kind Kind, op string, err error, opts ...Option) error {
	if err == nil {
		return nil
	}
	if isCanceled(err) {
		kind = Canceled
	}
	return build(kind, op, err, opts)
}

// With returns err with further fields set. An error without a kind becomes Internal.
func With(err error, opts ...Option) error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) && err == error(e) {
		c := *e
		for _, o := range opts {
			o(&c)
		}
		return &c
	}
	return build(KindOf(err), "", err, opts)
}

func build(kind Kind, op string, err error, opts []Option) error {
	e := &Error{Kind: kind, Op: op, Err: err}
	for _, o := range opts {
		o(e)
	}
	return e
}

// KindOf returns the kind of the outermost classified error in the chain; context and file-system errors of the
// standard library are classified too. A nil error has no kind: do not ask.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	switch {
	case isCanceled(err):
		return Canceled
	case errors.Is(err, fs.ErrNotExist):
		return NotFound
	case errors.Is(err, fs.ErrExist):
		return Exists
	case errors.Is(err, fs.ErrPermission):
		return Denied
	}
	return Internal
}

// Is reports whether err is of the kind.
func Is(err error, kind Kind) bool { return err != nil && KindOf(err) == kind }

// HintOf returns the first hint in the chain, or the empty string.
func HintOf(err error) string {
	for err != nil {
		var e *Error
		if !errors.As(err, &e) {
			return ""
		}
		if e.Hint != "" {
			return e.Hint
		}
		err = e.Err
	}
	return ""
}

func isCanceled(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

func sprintf(format string, args []any) string {
	if len(args) == 0 {
		return format
	}
	return fmt.Sprintf(format, args...)
}
