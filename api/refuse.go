package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/berth-backup/berth"
)

// badParameter answers a parameter that stands twice or does not fit its type. An
// id of the wrong shape is an id that nothing has.
func (e edge) badParameter(w http.ResponseWriter, r *http.Request, err error) {
	invalid, ok := errors.AsType[*InvalidParamFormatError](err)
	if ok && invalid.ParamName == "id" {
		e.fail(w, r, berth.Errorf(berth.CodeNotFound, "There is no backup of this id."))
		return
	}
	if problem := e.contract.checkQuery(operationOf(r), r); problem != nil {
		e.fail(w, r, problem)
		return
	}
	if twice, ok := errors.AsType[*TooManyValuesForParamError](err); ok {
		e.fail(w, r, malformedParameter(twice.ParamName, "duplicate-parameter", "stands twice"))
		return
	}
	e.fail(w, r, berth.Errorf(berth.CodeMalformedRequest, "The parameters cannot be read."))
}

// checkShape refuses query parameters that the contract does not have, reads
// the body and notes how its shape is wrong. Fields of a wrong shape are taken
// out, so that what is left can be decoded and checked too; refuseBadRequests
// then answers all of it at once.
func (e edge) checkShape(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		operation := operationOf(r)
		if problem := e.contract.checkQuery(operation, r); problem != nil {
			e.fail(w, r, problem)
			return
		}
		declared := e.contract.body(operation)
		if declared == nil {
			next.ServeHTTP(w, r)
			return
		}
		value, err := readBody(w, r, declared)
		if err != nil {
			e.fail(w, r, err)
			return
		}
		problems := declared.check(value)
		if _, isObject := value.(map[string]any); !isObject {
			e.fail(w, r, refusal(berth.CodeValidationFailed, problems))
			return
		}
		if err := replaceBody(r, withoutWrongFields(value, problems, declared.patch)); err != nil {
			e.fail(w, r, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), shapeProblemsKey{}, problems)))
	})
}

type shapeProblemsKey struct{}

func shapeProblems(ctx context.Context) []berth.FieldError {
	problems, _ := ctx.Value(shapeProblemsKey{}).([]berth.FieldError)
	return problems
}

// undecodable answers a body that the contract lets through and the generated
// types cannot hold, which is a difference between the two.
func (e edge) undecodable(w http.ResponseWriter, r *http.Request, err error) {
	if problems := shapeProblems(r.Context()); len(problems) > 0 {
		e.fail(w, r, refusal(berth.CodeValidationFailed, problems))
		return
	}
	e.fail(w, r, fmt.Errorf("decode a body that fits openapi.yaml: %w", err))
}

// asking is a request that asks for backups.
type asking interface{ asked() []asked }

// asked is one backup that is asked for, at its place in the body.
type asked struct {
	pointer string
	request berth.Request
}

// meaningful is a request whose meaning can be wrong, beside that of the
// backups that it asks for.
type meaningful interface{ problems() []berth.FieldError }

// refuseBadRequests joins what is wrong with a request's shape, with its
// meaning and with the rows that it names, and keeps it from the handler if
// shape or meaning are wrong; a request with rows alone against it is refused
// where it is carried out. Where several complain of one field, the shape's word
// counts: the others were asked without that field.
func (s server) refuseBadRequests(next StrictHandlerFunc, _ string) StrictHandlerFunc {
	return func(ctx context.Context, w http.ResponseWriter, r *http.Request, request any) (any, error) {
		shape, meaning := shapeProblems(ctx), meaningProblems(request)
		if len(shape)+len(meaning) == 0 {
			return next(ctx, w, r, request)
		}
		meaning = append(meaning, s.rowProblems(ctx, request)...)
		return nil, refusal(berth.CodeValidationFailed, withoutRepeats(shape, meaning))
	}
}

// meaningProblems lists what is wrong with a request as far as it can be told
// without rows.
func meaningProblems(request any) []berth.FieldError {
	var problems []berth.FieldError
	if r, ok := request.(meaningful); ok {
		problems = r.problems()
	}
	if r, ok := request.(asking); ok {
		for _, a := range r.asked() {
			problems = append(problems, under(a.pointer, a.request.Validate())...)
		}
	}
	return problems
}

// rowProblems lists what rows say is wrong with the backups that a request asks
// for. Where they cannot be read, the rest of what is wrong is still worth
// knowing.
func (s server) rowProblems(ctx context.Context, request any) []berth.FieldError {
	r, ok := request.(asking)
	if !ok {
		return nil
	}
	var problems []berth.FieldError
	for _, a := range r.asked() {
		rows, err := s.store.RowProblems(ctx, a.request)
		if err != nil {
			return problems
		}
		problems = append(problems, under(a.pointer, rows)...)
	}
	return problems
}

// under puts what is wrong with a value to its place in the body.
func under(pointer string, problems []berth.FieldError) []berth.FieldError {
	for i := range problems {
		problems[i].Pointer = pointer + problems[i].Pointer
	}
	return problems
}

// malformedParameter refuses what cannot be read of one parameter.
func malformedParameter(name, code, detail string) *berth.Error {
	return refusal(berth.CodeMalformedRequest, []berth.FieldError{{Parameter: name, Code: code, Detail: detail}})
}

// withoutRepeats adds those of more that are about fields of which problems do
// not complain yet.
func withoutRepeats(problems, more []berth.FieldError) []berth.FieldError {
	complained := map[string]bool{}
	for _, p := range problems {
		complained[p.Pointer] = true
	}
	for _, p := range more {
		if !complained[p.Pointer] {
			problems = append(problems, p)
		}
	}
	return problems
}

// operationOf names the operation that r was routed to, as the contract does:
// its method and its path's template.
func operationOf(r *http.Request) string {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	return method + " " + chi.RouteContext(r.Context()).RoutePattern()
}
