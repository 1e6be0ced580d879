package api

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/berth-backup/berth"
)

// GetQueueSettings shows a cluster's limits and its pause.
func (s server) GetQueueSettings(ctx context.Context, request GetQueueSettingsRequestObject) (GetQueueSettingsResponseObject, error) {
	answer, err := settingsAnswer(s.store.Settings(ctx, clusterOf(request.Params.Cluster)))
	if err != nil {
		return nil, err
	}
	return GetQueueSettings200JSONResponse{answer}, nil
}

// ChangeQueueSettings changes a cluster's limits if they are those that the
// client has read.
func (s server) ChangeQueueSettings(ctx context.Context, request ChangeQueueSettingsRequestObject) (ChangeQueueSettingsResponseObject, error) {
	change := request.change()
	var err error
	if change.IfVersion, err = versionMatched(request.Params.IfMatch); err != nil {
		return nil, err
	}
	answer, err := settingsAnswer(s.store.ChangeSettings(ctx, clusterOf(request.Params.Cluster), change))
	if err != nil {
		return nil, err
	}
	return ChangeQueueSettings200JSONResponse{answer}, nil
}

// change is what is asked for in the domain's words. Whatever the patch was
// called, it is read as application/json.
func (o ChangeQueueSettingsRequestObject) change() berth.SettingsChange {
	change := berth.SettingsChange{
		ConcurrentBackups: o.JSONBody.ConcurrentBackups, ItemBlockWorkerCount: o.JSONBody.ItemBlockWorkerCount,
	}
	if o.JSONBody.MaxQueued.IsSpecified() {
		change.MaxQueued = new(o.JSONBody.MaxQueued.GetOrEmpty())
	}
	return change
}

func (o ChangeQueueSettingsRequestObject) problems() []berth.FieldError { return o.change().Validate() }

// PauseQueue lets nothing of a cluster start from now on.
func (s server) PauseQueue(ctx context.Context, request PauseQueueRequestObject) (PauseQueueResponseObject, error) {
	answer, err := settingsAnswer(s.store.Pause(ctx, clusterOf(request.Body.Cluster), request.pause()))
	if err != nil {
		return nil, err
	}
	return PauseQueue200JSONResponse{answer}, nil
}

func (o PauseQueueRequestObject) pause() berth.PauseRequest {
	return berth.PauseRequest{Reason: orZero(o.Body.Reason), By: orZero(o.Body.By), Until: inUTC(o.Body.Until)}
}

func (o PauseQueueRequestObject) problems() []berth.FieldError { return o.pause().Validate(time.Now()) }

// ResumeQueue lets a cluster's backups start again.
func (s server) ResumeQueue(ctx context.Context, request ResumeQueueRequestObject) (ResumeQueueResponseObject, error) {
	answer, err := settingsAnswer(s.store.Resume(ctx, clusterOf(request.Body.Cluster), orZero(request.Body.By)))
	if err != nil {
		return nil, err
	}
	return ResumeQueue200JSONResponse{answer}, nil
}

// settingsAnswer shows settings under their entity tag.
func settingsAnswer(settings berth.QueueSettings, err error) (SettingsJSONResponse, error) {
	if err != nil {
		return SettingsJSONResponse{}, err
	}
	shown := settingsOf(settings)
	text, err := json.Marshal(shown)
	if err != nil {
		return SettingsJSONResponse{}, fmt.Errorf("write the settings of cluster %s: %w", shown.Cluster, err)
	}
	return SettingsJSONResponse{Body: shown, Headers: SettingsResponseHeaders{ETag: entityTag(settings.Version, text)}}, nil
}

func settingsOf(s berth.QueueSettings) QueueSettings {
	shown := QueueSettings{
		Cluster: s.Cluster, ConcurrentBackups: s.ConcurrentBackups, ItemBlockWorkerCount: s.ItemBlockWorkerCount, Version: s.Version,
	}
	if s.MaxQueued > 0 {
		shown.MaxQueued = &s.MaxQueued
	}
	if p := s.Paused; p != nil {
		shown.Paused = &Pause{Reason: textOrNull(p.Reason), By: textOrNull(p.By), Since: p.Since.UTC(), Until: inUTC(p.Until)}
	}
	return shown
}
