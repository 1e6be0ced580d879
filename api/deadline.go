package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/berth-backup/berth"
)

// storeTimeout is how long the store may take for one request: longer than a
// statement of the database may, so that only a database that is gone without a
// word meets it.
const storeTimeout = 15 * time.Second

// bounded gives the store its time. A store that does not keep it is not ready.
func bounded(next StrictHandlerFunc, _ string) StrictHandlerFunc {
	return func(ctx context.Context, w http.ResponseWriter, r *http.Request, request any) (any, error) {
		ctx, cancel := context.WithTimeout(ctx, storeTimeout)
		defer cancel()
		answer, err := next(ctx, w, r, request)
		if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = fmt.Errorf("%w: %w", berth.Errorf(berth.CodeNotReady, "The database does not answer."), err)
		}
		return answer, err
	}
}
