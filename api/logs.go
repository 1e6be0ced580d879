package api

import "context"

// GetBackupLogs answers with what an attempt said of itself so far.
func (s server) GetBackupLogs(ctx context.Context, request GetBackupLogsRequestObject) (GetBackupLogsResponseObject, error) {
	attempt := 0
	if request.Params.Attempt != nil {
		attempt = int(*request.Params.Attempt)
	}
	text, err := s.store.Log(ctx, request.ID, attempt)
	if err != nil {
		return nil, err
	}
	return GetBackupLogs200TextResponse(text), nil
}
