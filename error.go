package berth

import (
	"errors"
	"fmt"
	"strings"
)

// Code is the stable name of an error at Berth's border: the last segment of a
// problem's type and the word that clients compare. The list is closed.
type Code string

const (
	CodeMalformedRequest     Code = "malformed-request"
	CodeUnsupportedMediaType Code = "unsupported-media-type"
	CodeValidationFailed     Code = "validation-failed"
	CodePayloadTooLarge      Code = "payload-too-large"
	CodeNotFound             Code = "not-found"
	CodeMethodNotAllowed     Code = "method-not-allowed"
	CodeNameTaken            Code = "name-taken"
	// CodeStateConflict: what is asked for cannot be done in the backup's phase.
	CodeStateConflict Code = "backup-state-conflict"
	// CodePreconditionFailed: If-Match names another version than there is.
	CodePreconditionFailed Code = "precondition-failed"
	// CodePreconditionRequired: a change of settings needs If-Match.
	CodePreconditionRequired Code = "precondition-required"
	// CodeQueueFull: as many backups wait as the cluster's maxQueued allows.
	CodeQueueFull Code = "queue-full"
	CodeNotReady  Code = "not-ready"
	CodeInternal  Code = "internal"
)

// Codes lists every code.
func Codes() []Code {
	return []Code{
		CodeMalformedRequest, CodeUnsupportedMediaType, CodeValidationFailed, CodePayloadTooLarge,
		CodeNotFound, CodeMethodNotAllowed, CodeNameTaken, CodeStateConflict,
		CodePreconditionFailed, CodePreconditionRequired, CodeQueueFull, CodeNotReady, CodeInternal,
	}
}

// FieldError is what is wrong with one field of a request.
type FieldError struct {
	// Pointer is the RFC 6901 JSON pointer into the request's body, such as
	// "/spec/includedNamespaces/0"; empty where Parameter is set.
	Pointer string
	// Parameter is the name of the query or path parameter.
	Parameter string
	// Code is a short stable word, such as "invalid" or "unknown-field".
	Code string
	// Detail is a sentence for a person.
	Detail string
}

// Error is an error of the closed vocabulary, ready to be shown to a client:
// nothing in it tells of the inside of the process.
type Error struct {
	Code   Code
	Detail string
	Fields []FieldError
	// ExistingID is the id of the backup that has the name, for CodeNameTaken.
	ExistingID string
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", e.Code, e.Detail)
	for _, f := range e.Fields {
		fmt.Fprintf(&b, "; %s%s: %s", f.Pointer, f.Parameter, f.Detail)
	}
	return b.String()
}

// Errorf makes an Error of code with a formatted detail.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Detail: fmt.Sprintf(format, args...)}
}

// CodeOf gives the code of the first Error in err's chain, CodeInternal for
// any other error and "" for none.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeInternal
}

// ErrLeaseLost says that a worker's fence is no longer the backup's: another
// attempt may be running, so the worker stops and writes nothing more.
var ErrLeaseLost = errors.New("lease lost: the backup belongs to a later attempt")

// ErrNoNotifications says that what a transaction tells does not come through to
// who listens. Through a pooler that shares connections it never does: whoever
// has it polls.
var ErrNoNotifications = errors.New("notifications do not arrive through this connection")
