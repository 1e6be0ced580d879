package api

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/berth-backup/berth"
)

// edge is where requests come in and errors end: whatever goes wrong becomes
// one problem for the client and, if it is not the client's doing, one line in
// the log.
type edge struct {
	logger   *slog.Logger
	contract *contract
}

// fail answers with err: as itself if it is of the vocabulary, else as internal.
func (e edge) fail(w http.ResponseWriter, r *http.Request, err error) {
	known, ok := errors.AsType[*berth.Error](err)
	if ok {
		_, ok = kinds[known.Code]
	}
	switch {
	case ok && kinds[known.Code].status < http.StatusInternalServerError:
		// The client's doing, such as a body that broke off.
	case r.Context().Err() != nil:
		// The client is gone: nobody reads the answer, and nothing is broken.
		known = berth.Errorf(berth.CodeNotReady, "The request was given up.")
	case !ok || known.Code == berth.CodeInternal:
		e.logger.ErrorContext(r.Context(), "request failed", e.attributes(r, err)...)
		known = internalError()
	case known.Code == berth.CodeNotReady:
		e.logger.WarnContext(r.Context(), "request refused", e.attributes(r, err)...)
	}
	writeProblem(w, r, known)
}

func (e edge) attributes(r *http.Request, err error) []any {
	return []any{"requestId", requestID(r.Context()), "method", r.Method, "path", r.URL.Path, "error", err}
}

// recoverPanics answers a panic as internal. Where the answer has begun, the
// connection is cut, so that the client does not take half of one for a whole.
func (e edge) recoverPanics(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		wrapped := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		defer func() {
			cause := recover()
			if cause == nil {
				return
			}
			if cause == http.ErrAbortHandler {
				panic(cause)
			}
			attributes := append(e.attributes(r, fmt.Errorf("panic: %v", cause)), "stack", string(debug.Stack()))
			e.logger.ErrorContext(r.Context(), "request failed", attributes...)
			if wrapped.Status() != 0 {
				panic(http.ErrAbortHandler)
			}
			writeProblem(wrapped, r, internalError())
		}()
		next.ServeHTTP(wrapped, r)
	})
}

func (e edge) notFound(w http.ResponseWriter, r *http.Request) {
	writeProblem(w, r, berth.Errorf(berth.CodeNotFound, "There is nothing at %s.", r.URL.Path))
}

func (e edge) methodNotAllowed(w http.ResponseWriter, r *http.Request) {
	routes := chi.RouteContext(r.Context()).Routes
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		if routes.Match(chi.NewRouteContext(), method, r.URL.Path) {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 { // a method that the router has never heard of
		e.notFound(w, r)
		return
	}
	if slices.Contains(allowed, http.MethodGet) {
		allowed = append(allowed, http.MethodHead)
	}
	allow := strings.Join(allowed, ", ")
	w.Header().Set("Allow", allow)
	writeProblem(w, r, berth.Errorf(berth.CodeMethodNotAllowed, "%s has %s.", r.URL.Path, allow))
}
