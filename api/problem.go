package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/berth-backup/berth"
)

// problemTypePrefix begins the type of every problem; its code follows. A tag
// URI (RFC 4151) names without promising that something is served there.
const problemTypePrefix = "tag:berth-backup.io,2026:problems/"

// problemKind is what all problems of one code have in common.
type problemKind struct {
	status int
	title  string
}

// kinds gives each code its status and its title.
var kinds = map[berth.Code]problemKind{
	berth.CodeMalformedRequest:     {http.StatusBadRequest, "The request cannot be read"},
	berth.CodeUnsupportedMediaType: {http.StatusUnsupportedMediaType, "The body is not of a type that is taken here"},
	berth.CodeValidationFailed:     {http.StatusUnprocessableEntity, "The request cannot be accepted"},
	berth.CodePayloadTooLarge:      {http.StatusRequestEntityTooLarge, "The body is too large"},
	berth.CodeNotFound:             {http.StatusNotFound, "There is no such thing"},
	berth.CodeMethodNotAllowed:     {http.StatusMethodNotAllowed, "The path does not have this method"},
	berth.CodeNameTaken:            {http.StatusConflict, "The name is taken"},
	berth.CodeStateConflict:        {http.StatusConflict, "The backup is in another phase"},
	berth.CodePreconditionFailed:   {http.StatusPreconditionFailed, "Somebody has changed it meanwhile"},
	berth.CodePreconditionRequired: {http.StatusPreconditionRequired, "The change needs If-Match"},
	berth.CodeQueueFull:            {http.StatusTooManyRequests, "The queue is full"},
	berth.CodeNotReady:             {http.StatusServiceUnavailable, "The server is not ready"},
	berth.CodeInternal:             {http.StatusInternalServerError, "The server made a mistake"},
}

// retryAfter is how many seconds to wait before the same request can succeed;
// codes that are not here need another request. A queue gets a place when a
// backup starts, which takes longer than a database that comes back.
var retryAfter = map[berth.Code]int{berth.CodeNotReady: 2, berth.CodeQueueFull: 30}

// writeProblem answers with e as a problem.
func writeProblem(w http.ResponseWriter, r *http.Request, e *berth.Error) {
	problem := problemOf(e, requestID(r.Context()))
	w.Header().Set("Content-Type", "application/problem+json")
	if problem.Retryable {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter[problem.Code]))
	}
	w.WriteHeader(problem.Status)
	// The client is gone if this fails: there is nobody to tell.
	_ = json.NewEncoder(w).Encode(problem)
}

func problemOf(e *berth.Error, requestID string) Problem {
	kind := kinds[e.Code]
	problem := Problem{
		Type:      problemTypePrefix + string(e.Code),
		Title:     kind.title,
		Status:    kind.status,
		Detail:    e.Detail,
		Instance:  "/requests/" + requestID,
		Code:      e.Code,
		RequestID: requestID,
		Retryable: retryAfter[e.Code] > 0,
		Errors:    make([]FieldError, 0, len(e.Fields)),
	}
	for _, f := range e.Fields {
		field := FieldError{Code: f.Code, Detail: f.Detail}
		if f.Parameter != "" {
			field.Parameter = &f.Parameter
		} else {
			field.Pointer = &f.Pointer
		}
		problem.Errors = append(problem.Errors, field)
	}
	if id, err := uuid.Parse(e.ExistingID); err == nil {
		problem.ExistingID = &id
	}
	return problem
}

// internalError is what a client is told of an error that is not its own.
func internalError() *berth.Error {
	return berth.Errorf(berth.CodeInternal, "The server's log has the error under this request's id.")
}

// refusal is one error for all the fields that are wrong; each field's errors
// are joined, so that no pointer stands twice.
func refusal(code berth.Code, fields []berth.FieldError) *berth.Error {
	type place struct{ pointer, parameter string }
	var joined []berth.FieldError
	at := map[place]int{}
	for _, f := range fields {
		i, seen := at[place{f.Pointer, f.Parameter}]
		if seen {
			joined[i].Detail += "; " + f.Detail
			continue
		}
		at[place{f.Pointer, f.Parameter}] = len(joined)
		joined = append(joined, f)
	}
	slices.SortStableFunc(joined, func(a, b berth.FieldError) int {
		return strings.Compare(a.Parameter+a.Pointer, b.Parameter+b.Pointer)
	})
	return &berth.Error{Code: code, Detail: summary(joined), Fields: joined}
}

// summary says what is wrong in one sentence, for those who read no further.
func summary(fields []berth.FieldError) string {
	first := fields[0]
	where := first.Pointer + first.Parameter
	if where == "" {
		where = "the body"
	}
	if len(fields) == 1 {
		return where + ": " + first.Detail
	}
	return fmt.Sprintf("%d fields are wrong; the first is %s: %s", len(fields), where, first.Detail)
}
