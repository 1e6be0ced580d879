// Package api is Berth's HTTP room: the REST API of openapi.yaml on chi. It
// reads requests, refuses bad ones with everything that is wrong with them,
// asks its Store and writes answers and RFC 9457 problems. It knows nothing of
// Postgres or Kubernetes.
package api

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/google/uuid"

	"github.com/berth-backup/berth"
)

// Store is what the API asks. Its errors are *berth.Error where a client is to
// be told something; any other error is answered as internal, its text hidden.
// Every method may fail with berth.CodeNotReady while the database is away.
type Store interface {
	// Enqueue puts a valid request into its cluster's queue and gives the
	// backup as it then is. It fails with berth.CodeNameTaken and the id of
	// the backup that has the name, and with berth.CodeValidationFailed where
	// a row is missing that the request names, such as its cluster.
	Enqueue(ctx context.Context, request berth.Request) (berth.Backup, error)
	// DryRun says what Enqueue would do with a request now, and does nothing. It
	// refuses what Enqueue would, and fails as it does.
	DryRun(ctx context.Context, request berth.Request) (berth.Prediction, error)
	// RowProblems lists what rows say is wrong with a request, such as a storage
	// location that does not exist. It is asked about requests that are refused
	// already; Enqueue finds the same by itself.
	RowProblems(ctx context.Context, request berth.Request) ([]berth.FieldError, error)
	// Backup gives one backup, or fails with berth.CodeNotFound.
	Backup(ctx context.Context, id uuid.UUID) (berth.Backup, error)
	// Backups gives one page. A cursor that it did not make is
	// berth.CodeMalformedRequest for the parameter cursor.
	Backups(ctx context.Context, options berth.ListOptions) (berth.List, error)
	// Edit changes a waiting backup and gives it as it then is. It fails with
	// berth.CodeNotFound, and with berth.CodeStateConflict where the backup does
	// not wait any more.
	Edit(ctx context.Context, id uuid.UUID, edit berth.Edit) (berth.Backup, error)
	// Log reads the log of one attempt of a backup, of the newest where attempt is 0,
	// or fails with berth.CodeNotFound.
	Log(ctx context.Context, id uuid.UUID, attempt int) (string, error)
	// Explain tells all that a backup waits for, or fails with berth.CodeNotFound.
	Explain(ctx context.Context, id uuid.UUID) (berth.Explained, error)
	// Queue gives a page of a cluster's queue, or fails with berth.CodeNotFound. A
	// cursor that it did not make is berth.CodeMalformedRequest for the parameter
	// cursor.
	Queue(ctx context.Context, options berth.QueueOptions) (berth.Queue, error)
	// Settings gives a cluster's limits, or fails with berth.CodeNotFound.
	Settings(ctx context.Context, cluster string) (berth.QueueSettings, error)
	// ChangeSettings changes a cluster's limits and gives them as they then are. It
	// fails with berth.CodeNotFound, and with berth.CodePreconditionFailed where
	// they are not of the version that the change was made for.
	ChangeSettings(ctx context.Context, cluster string, change berth.SettingsChange) (berth.QueueSettings, error)
	// Pause lets nothing of a cluster start, and Resume lets it again; they fail
	// with berth.CodeNotFound.
	Pause(ctx context.Context, cluster string, pause berth.PauseRequest) (berth.QueueSettings, error)
	Resume(ctx context.Context, cluster, by string) (berth.QueueSettings, error)
	// Simulate predicts how a cluster's queue goes on and changes nothing. It fails
	// with berth.CodeNotFound, and with berth.CodeValidationFailed where a row is
	// missing that the request names.
	Simulate(ctx context.Context, request berth.SimulateRequest) (berth.Forecast, error)
	// Ready fails while the store cannot serve.
	Ready(ctx context.Context) error
}

// Options are the settings of New; the zero value is useful.
type Options struct {
	// Logger gets the errors that clients are not told. Default slog.Default().
	Logger *slog.Logger
}

// New makes the handler of the whole API.
func New(store Store, options Options) http.Handler {
	logger := options.Logger
	if logger == nil {
		logger = slog.Default()
	}
	edge := edge{logger: logger, contract: openAPI()}

	router := chi.NewRouter()
	router.Use(withRequestID, noStore, edge.recoverPanics, middleware.GetHead)
	router.NotFound(edge.notFound)
	router.MethodNotAllowed(edge.methodNotAllowed)
	operations := server{store: store, logger: logger}
	strict := NewStrictHandlerWithOptions(
		operations,
		[]StrictMiddlewareFunc{operations.refuseBadRequests, bounded}, // the last is the outermost
		StrictHTTPServerOptions{RequestErrorHandlerFunc: edge.undecodable, ResponseErrorHandlerFunc: edge.fail},
	)
	return HandlerWithOptions(strict, ChiServerOptions{
		BaseRouter:       router,
		Middlewares:      []MiddlewareFunc{edge.checkShape},
		ErrorHandlerFunc: edge.badParameter,
	})
}

// noStore keeps answers out of caches: each shows one instant.
func noStore(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}
