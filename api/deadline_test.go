package api_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/api"
)

// silent is a store that answers when it is given up.
type silent struct{ store }

func (silent) Enqueue(ctx context.Context, _ berth.Request) (berth.Backup, error) {
	<-ctx.Done()
	return berth.Backup{}, ctx.Err()
}

func TestAStoreThatDoesNotAnswerIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler := api.New(silent{}, api.Options{Logger: slog.New(slog.DiscardHandler)})
		request := httptest.NewRequestWithContext(t.Context(), "POST", "/backups", strings.NewReader(`{"spec":{}}`))
		request.Header.Set("Content-Type", "application/json")
		answer := httptest.NewRecorder()
		began := time.Now()
		handler.ServeHTTP(answer, request)
		var problem api.Problem
		if err := json.NewDecoder(answer.Body).Decode(&problem); err != nil {
			t.Fatal(err)
		}
		if answer.Code != 503 || problem.Code != berth.CodeNotReady || answer.Header().Get("Retry-After") == "" {
			t.Errorf("got %d %+v", answer.Code, problem)
		}
		if took := time.Since(began); took != 15*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}
