package api

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/berth-backup/berth"
)

// SimulateQueue predicts how a cluster's queue goes on after a change.
func (s server) SimulateQueue(ctx context.Context, request SimulateQueueRequestObject) (SimulateQueueResponseObject, error) {
	wanted := berth.SimulateRequest{
		Cluster: clusterOf(request.Body.Cluster), ConcurrentBackups: request.Body.ConcurrentBackups, Cancel: orZero(request.Body.Cancel),
	}
	for _, a := range request.asked() {
		wanted.Add = append(wanted.Add, a.request)
	}
	forecast, err := s.store.Simulate(ctx, wanted)
	if err != nil {
		return nil, err
	}
	return SimulateQueue200JSONResponse(forecastOf(forecast)), nil
}

func (o SimulateQueueRequestObject) asked() []asked {
	var all []asked
	for i, add := range orZero(o.Body.Add) {
		all = append(all, asked{pointer: fmt.Sprintf("/add/%d", i), request: requestOf(add, clusterOf(o.Body.Cluster))})
	}
	return all
}

// A simulation is of one cluster.
func (o SimulateQueueRequestObject) problems() []berth.FieldError {
	var problems []berth.FieldError
	cluster := clusterOf(o.Body.Cluster)
	for _, a := range o.asked() {
		if a.request.Cluster != cluster {
			detail := fmt.Sprintf("must be left out or %q, the cluster that is simulated", cluster)
			problems = append(problems, berth.FieldError{Pointer: a.pointer + "/cluster", Code: "conflict", Detail: detail})
		}
	}
	return problems
}

func forecastOf(f berth.Forecast) Forecast {
	shown := Forecast{
		Cluster: f.Cluster, ConcurrentBackups: f.ConcurrentBackups, ComputedAt: f.ComputedAt.UTC(),
		Waiting: []ForecastBackup{}, Truncated: f.Truncated,
	}
	for _, b := range f.Waiting {
		entry := ForecastBackup{
			Backup: forecastRefOf(b.Backup), Added: b.Added, Position: positionOrNull(b.Position), Starts: b.Starts,
			BlockedBy: forecastBlockerOf(b.BlockedBy), Now: etaOrNull(b.Now),
		}
		if b.ETA.Basis != "" { // none where the queue is too long to simulate
			entry.ETA = etaOrNull(&b.ETA)
		}
		shown.Waiting = append(shown.Waiting, entry)
	}
	return shown
}

func forecastBlockerOf(b berth.Blocker) ForecastBlocker {
	blocker := ForecastBlocker{Reason: b.Reason, Namespaces: orNone(b.Namespaces), Setting: textOrNull(b.Setting)}
	if b.Backup != nil {
		blocker.Backup = new(forecastRefOf(*b.Backup))
	}
	return blocker
}

// forecastRefOf names a backup that may be one that is only thought of.
func forecastRefOf(b berth.BackupRef) ForecastRef {
	ref := ForecastRef{Name: textOrNull(b.Name)}
	if b.ID != uuid.Nil {
		ref.ID = &b.ID
	}
	return ref
}
