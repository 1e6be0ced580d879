package api

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/berth-backup/berth"
)

const (
	defaultLimit = 50
	maxLimit     = 200
)

// readyTimeout is how long the store may take to say that it is ready.
const readyTimeout = 2 * time.Second

// server answers the operations of the contract from its store.
type server struct {
	store  Store
	logger *slog.Logger
}

var _ StrictServerInterface = server{}

func (s server) ListBackups(ctx context.Context, request ListBackupsRequestObject) (ListBackupsResponseObject, error) {
	options := berth.ListOptions{Limit: defaultLimit}
	if request.Params.Cluster != nil {
		options.Cluster = *request.Params.Cluster
	}
	if request.Params.Phase != nil {
		options.Phases = *request.Params.Phase
	}
	if request.Params.Limit != nil {
		options.Limit = min(*request.Params.Limit, maxLimit)
	}
	if request.Params.Cursor != nil {
		options.After = *request.Params.Cursor
	}
	list, err := s.store.Backups(ctx, options)
	if err != nil {
		return nil, err
	}
	return ListBackups200JSONResponse(listOf(list)), nil
}

func (s server) GetBackup(ctx context.Context, request GetBackupRequestObject) (GetBackupResponseObject, error) {
	backup, err := s.store.Backup(ctx, request.ID)
	if err != nil {
		return nil, err
	}
	return GetBackup200JSONResponse(backupOf(backup)), nil
}

func (s server) GetLivez(context.Context, GetLivezRequestObject) (GetLivezResponseObject, error) {
	return GetLivez200JSONResponse{Status: HealthOK}, nil
}

func (s server) GetReadyz(ctx context.Context, _ GetReadyzRequestObject) (GetReadyzResponseObject, error) {
	asked, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := s.store.Ready(asked); err != nil {
		return nil, fmt.Errorf("%w: %w", berth.Errorf(berth.CodeNotReady, "The database does not answer."), err)
	}
	return GetReadyz200JSONResponse{Status: HealthOK}, nil
}

func (s server) GetOpenAPI(context.Context, GetOpenAPIRequestObject) (GetOpenAPIResponseObject, error) {
	return GetOpenAPI200ApplicationYamlResponse{
		Body: bytes.NewReader(berth.OpenAPI), ContentLength: int64(len(berth.OpenAPI)),
	}, nil
}
