package api

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestARequestThatIsGivenUpIsNotLogged(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	e := edge{logger: slog.New(slog.NewTextHandler(&log, nil))}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	answer := httptest.NewRecorder()
	e.fail(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, "/backups", nil), ctx.Err())
	if answer.Code != http.StatusServiceUnavailable || log.Len() > 0 {
		t.Errorf("answered %d, logged %q", answer.Code, &log)
	}
}

func TestAPanicInTheMiddleOfAnAnswerCutsTheConnection(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	e := edge{logger: slog.New(slog.NewTextHandler(&log, nil))}
	server := httptest.NewServer(e.recoverPanics(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("half an answer", 1000))
		panic("in the middle")
	})))
	defer server.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := server.Client().Do(request)
	if err == nil {
		defer func() { _ = answer.Body.Close() }()
		_, err = io.ReadAll(answer.Body)
	}
	if err == nil {
		t.Error("the client takes half an answer for a whole one")
	}
	server.Close()
	if strings.Count(log.String(), "in the middle") != 1 || strings.Count(log.String(), "\n") != 1 {
		t.Errorf("the log is %q", &log)
	}
}
