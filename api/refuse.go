package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/berth-backup/berth"
)

// badParameter answers a parameter that does not fit its type. An id of the
// wrong shape is an id that nothing has.
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
		if !e.contract.takesBody(operation) {
			next.ServeHTTP(w, r)
			return
		}
		value, err := readBody(w, r)
		if err != nil {
			e.fail(w, r, err)
			return
		}
		problems := e.contract.checkBody(operation, value)
		if _, isObject := value.(map[string]any); !isObject {
			e.fail(w, r, refusal(berth.CodeValidationFailed, problems))
			return
		}
		if err := replaceBody(r, withoutWrongFields(value, problems)); err != nil {
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

// refuseBadRequests joins what is wrong with a request's shape, with its
// meaning and with the rows that it names, and keeps it from the handler if
// shape or meaning are wrong; a request with rows alone against it is refused
// where it is carried out. Where several complain of one field, the shape's word
// counts: the others were asked without that field.
func (s server) refuseBadRequests(next StrictHandlerFunc, _ string) StrictHandlerFunc {
	return func(ctx context.Context, w http.ResponseWriter, r *http.Request, request any) (any, error) {
		problems := shapeProblems(ctx)
		create, ok := request.(CreateBackupRequestObject)
		if !ok {
			return next(ctx, w, r, request)
		}
		wanted := create.request()
		meaning := wanted.Validate()
		if len(problems)+len(meaning) == 0 {
			return next(ctx, w, r, request)
		}
		// Without the rows the rest of what is wrong is still worth knowing.
		if rows, err := s.store.RowProblems(ctx, wanted); err == nil {
			meaning = append(meaning, rows...)
		}
		return nil, refusal(berth.CodeValidationFailed, withoutRepeats(problems, meaning))
	}
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
