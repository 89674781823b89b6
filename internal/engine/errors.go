package engine

/*
#include <stdlib.h>
*/
import "C"

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unsafe"

	"github.com/overlakedb/overlake/internal/errs"
)

// SQLError is what DuckDB says about a statement. It is the cause inside the errors of this room.
type SQLError struct {
	Message    string
	Position   int    // byte offset into the statement, -1 when unknown
	Type       string // DuckDB's exception type, such as "Binder"
	Subtype    string // such as "NO_MATCHING_FUNCTION", "COLUMN_NOT_FOUND", "MISSING_ENTRY"
	Name       string // the function, column or table the error is about
	Call       string // for NO_MATCHING_FUNCTION: the call with its types, such as "sum(vector)"
	Candidates string // what could have been meant, separated by commas

	cause error // what the Go code that the statement called said
}

func (e *SQLError) Error() string {
	if e.cause != nil {
		return e.cause.Error()
	}
	return e.Message
}

// Unwrap gives the error of the Go code (a file's reader, a function, a feed) that made the statement fail.
func (e *SQLError) Unwrap() error { return e.cause }

// AsSQLError finds the SQLError in a chain.
func AsSQLError(err error) (*SQLError, bool) {
	var e *SQLError
	ok := errors.As(err, &e)
	return e, ok
}

// engineError classifies an error text that C allocated, and frees it; NULL is nil.
func engineError(op string, text *C.char) error {
	if text == nil {
		return nil
	}
	defer C.free(unsafe.Pointer(text))
	return classify(op, C.GoString(text))
}

func classify(op, text string) error {
	e := &SQLError{Message: text, Position: -1}
	if i := strings.Index(text, "{\"exception_type\""); i >= 0 && i < 40 {
		var j struct {
			Type       string `json:"exception_type"`
			Message    string `json:"exception_message"`
			Position   string `json:"position"`
			Subtype    string `json:"error_subtype"`
			Name       string `json:"name"`
			Call       string `json:"call"`
			Candidates string `json:"candidates"`
		}
		if json.Unmarshal([]byte(text[i:]), &j) == nil {
			e = &SQLError{Message: j.Message, Position: -1, Type: j.Type, Subtype: j.Subtype, Name: j.Name, Call: j.Call, Candidates: j.Candidates}
			if p, err := strconv.Atoi(j.Position); err == nil {
				e.Position = p
			}
		}
	} else if i := strings.Index(text, " Error: "); i > 0 && i < 40 {
		e.Type, e.Message = text[:i], text[i+len(" Error: "):]
	}
	named, aboutFile, cause := nameFiles(e.Message)
	if m, err := takeFailure(named); err != nil {
		named, cause = m, err
	}
	named, _, _ = strings.Cut(named, "\n\nPlease try installing") // there are no extensions here
	e.Message = strings.TrimSpace(named)
	if cause != nil {
		// What our own code said tells more than the text or the error number that DuckDB saw.
		e.cause = cause
		return errs.Wrap(errs.KindOf(cause), op, e)
	}
	var opts []errs.Option
	// DuckDB puts its advice behind the message; we print advice on a line of its own.
	if i := strings.Index(e.Message, "\nDid you mean "); i >= 0 {
		opts = append(opts, errs.Hint("%s", strings.ToLower(e.Message[i+1:i+2])+e.Message[i+2:]))
		e.Message = strings.TrimRight(e.Message[:i], "! \n")
	} else if e.Subtype == "COLUMN_NOT_FOUND" && e.Candidates != "" {
		if i := strings.Index(e.Message, "\nCandidate bindings:"); i >= 0 {
			e.Message = strings.TrimRight(e.Message[:i], "! \n")
		}
		opts = append(opts, errs.Hint("did you mean one of %s?", e.Candidates))
	} else if i := strings.Index(e.Message, "\n\tCandidate functions:"); i >= 0 {
		e.Message = strings.TrimSpace(e.Message[:i])
		if n := strings.Count(e.Candidates, "->"); n > 0 && n <= 6 {
			opts = append(opts, errs.Hint("candidates are %s", e.Candidates))
		}
	}
	kind := kindOf(e)
	if aboutFile && kind == errs.Invalid {
		kind = errs.Corrupt // what is wrong with a file of ours is wrong with its bytes
	}
	if kind == errs.Exhausted {
		opts = append(opts, errs.Hint("raise the memory limit or the spill limit, or let the query read less"))
	}
	return errs.Wrap(kind, op, e, opts...)
}

func kindOf(e *SQLError) errs.Kind {
	m := e.Message
	switch strings.ToLower(e.Type) {
	case "out of memory":
		return errs.Exhausted
	case "interrupt":
		return errs.Canceled
	case "not implemented":
		return errs.Unsupported
	case "permission":
		return errs.Denied
	case "catalog":
		return errs.NotFound
	case "io":
		switch {
		case strings.Contains(m, "No such file"), strings.Contains(m, "No files found"):
			return errs.NotFound
		case strings.Contains(m, "No space left"), strings.Contains(m, "max_temp_directory_size"):
			return errs.Exhausted
		}
		return errs.Corrupt
	case "internal", "fatal", "":
		return errs.Internal
	}
	return errs.Invalid
}

// parsed takes the answer of json_serialize_sql apart.
func parsed(tree string) (string, error) {
	const ok = `{"error":false`
	if strings.HasPrefix(tree, ok) {
		return tree, nil
	}
	var j struct {
		Type     string `json:"error_type"`
		Message  string `json:"error_message"`
		Position string `json:"position"`
		Subtype  string `json:"error_subtype"`
	}
	if err := json.Unmarshal([]byte(tree), &j); err != nil {
		return "", errs.Wrap(errs.Internal, "engine.parse", err)
	}
	e := &SQLError{Message: j.Message, Position: -1, Type: j.Type, Subtype: j.Subtype}
	if p, err := strconv.Atoi(j.Position); err == nil {
		e.Position = p
	}
	return "", errs.Wrap(errs.Invalid, "engine.parse", e)
}
