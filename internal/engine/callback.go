package engine

/*
#include <stdlib.h>
*/
import "C"

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"sync"

	"github.com/overlakedb/overlake/internal/errs"
)

// Errors of Go code that DuckDB calls travel through it as text. So that the caller of the query gets the error itself,
// with its kind and its hint, the text ends in a number by which the error is found again. DuckDB may drop the text (TRY
// does), so only the last failureSlots errors are kept.
const failureSlots = 256

var failures = struct {
	sync.Mutex
	last  uint64
	slots [failureSlots]struct {
		id  uint64
		err error
	}
}{}

var failureMark = regexp.MustCompile(` \[failure ([0-9]+)\]`)

// failure is the text of an error for DuckDB, to be freed with free.
func failure(err error) *C.char {
	var classified *errs.Error
	if !errors.As(err, &classified) {
		err = errs.Wrap(errs.Invalid, "engine.callback", err) // a function that only says no does not like its input
	}
	failures.Lock()
	failures.last++
	id := failures.last
	failures.slots[id%failureSlots].id, failures.slots[id%failureSlots].err = id, err
	failures.Unlock()
	return C.CString(fmt.Sprintf("%v [failure %d]", err, id))
}

// takeFailure finds the error that a message carries, and gives the message without the mark. The error is nil when the
// message has none or its error is too old.
func takeFailure(message string) (string, error) {
	m := failureMark.FindStringSubmatchIndex(message)
	if m == nil {
		return message, nil
	}
	id, err := strconv.ParseUint(message[m[2]:m[3]], 10, 64)
	message = message[:m[0]] + message[m[1]:]
	if err != nil {
		return message, nil
	}
	failures.Lock()
	defer failures.Unlock()
	if s := &failures.slots[id%failureSlots]; s.id == id {
		return message, s.err
	}
	return message, nil
}

// recovered turns a panic of Go code into an error of the query: it must not cross into C.
func recovered(failed **C.char) {
	if p := recover(); p != nil {
		*failed = failure(errs.Newf(errs.Internal, "engine.callback", "internal error in a function: %v", p))
	}
}
