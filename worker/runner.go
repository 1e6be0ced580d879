package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/berth-backup/berth"
)

// RunStore is what a run writes. Each method returns berth.ErrLeaseLost where
// the run's fence is no longer the backup's.
type RunStore interface {
	Start(ctx context.Context, run berth.Run) error
	Progress(ctx context.Context, run berth.Run, p berth.Progress) error
	// AppendLog writes a chunk of the attempt's log; chunks count from 0.
	AppendLog(ctx context.Context, run berth.Run, chunk int, text string) error
	Finalize(ctx context.Context, run berth.Run, outcome berth.Outcome) error
	Finish(ctx context.Context, run berth.Run, outcome berth.Outcome) error
	Release(ctx context.Context, run berth.Run, message string) error
	// GiveUp ends an attempt that cannot go on: the backup is tried again later,
	// or has Failed after the last attempt.
	GiveUp(ctx context.Context, run berth.Run, reason, message string) error
}

// Engine takes one backup: everything up to the object that makes it visible.
// An error with a method Outcome() berth.Outcome is a verdict on the backup; one
// of berth.CodeNotReady says that the database was away and Take is to be called
// again; any other one is of circumstances, and the attempt is given up: with the
// word of its method Reason() string, if it has one.
type Engine interface {
	// Validate lists what only the cluster can say against a backup, before it
	// starts: with a problem it ends as FailedValidation. Errors are as Take's.
	Validate(ctx context.Context, run berth.Run) (problems []string, err error)
	Take(ctx context.Context, run berth.Run, report Report) (Taken, error)
}

// Report takes what an engine tells while it runs, from any goroutine.
type Report struct {
	Progress func(berth.Progress)
	// Log takes lines of the backup's log.
	Log io.Writer
}

// Taken is a backup whose artefacts are complete but for the last.
type Taken interface {
	Outcome() berth.Outcome
	// Publish writes the last artefact, which shows the backup as final, and
	// looks all of them up again.
	Publish(ctx context.Context, final berth.Backup) error
	// Close frees what Take held.
	Close() error
}

// progressInterval is how often a run's progress is written at most.
const progressInterval = time.Second

// run takes one admitted backup from ReadyToStart to its end.
func (w *Worker) run(h *hold) {
	log := w.config.Log.With("backup", h.run.Name, "id", h.run.ID, "attempt", h.run.Attempt)
	outcome, err := w.carryOut(h)
	if err != nil && h.ctx.Err() == nil && !errors.Is(err, berth.ErrLeaseLost) {
		verdict, final := errors.AsType[verdict](err)
		if !final {
			w.giveUp(h, err, log)
			return
		}
		outcome, err = verdict.Outcome(), nil
	}
	if err == nil {
		err = w.write(h.ctx, func(ctx context.Context) error { return w.store.Finish(ctx, h.run, outcome) })
	}
	switch {
	case err == nil:
		log.Info("backup ended", "phase", outcome.Phase, "items", outcome.Progress.ItemsBackedUp,
			"warnings", outcome.Warnings, "errors", outcome.Errors, "reason", outcome.Message)
	case h.lost() || errors.Is(err, berth.ErrLeaseLost):
		log.Warn("backup given up: its lease is lost", "error", err)
	case errors.Is(context.Cause(h.ctx), errShutdown):
		if err := w.giveBack(h); err != nil {
			log.Warn("give the backup back", "error", err)
			return
		}
		log.Info("backup is back in the queue: the worker is shutting down")
	default:
		log.Error("backup's end cannot be written: its lease will run out", "phase", outcome.Phase, "error", err)
	}
}

// carryOut does the work and gives the outcome that the row is to show. A panic
// in it is the end of this backup alone.
func (w *Worker) carryOut(h *hold) (_ berth.Outcome, err error) {
	defer func() {
		if v := recover(); v != nil {
			w.config.Log.Error("panic", "backup", h.run.Name, "id", h.run.ID, "panic", v, "stack", string(debug.Stack()))
			err = fault{v}
		}
	}()
	var problems []string
	err = Outlast(h.ctx, func() (err error) {
		problems, err = w.engine.Validate(h.ctx, h.run)
		return err
	})
	switch {
	case err != nil:
		return berth.Outcome{}, err
	case len(problems) > 0:
		return berth.Outcome{Phase: berth.PhaseFailedValidation, Message: problems[0], ValidationErrors: problems}, nil
	}
	if err := w.write(h.ctx, func(ctx context.Context) error { return w.store.Start(ctx, h.run) }); err != nil {
		return berth.Outcome{}, err
	}
	started := time.Now()
	var taken Taken
	err = Outlast(h.ctx, func() (err error) {
		taken, err = w.takeReporting(h)
		return err
	})
	if err != nil {
		return berth.Outcome{}, err
	}
	defer func() {
		if err := taken.Close(); err != nil {
			w.config.Log.Warn("close the object store", "backup", h.run.Name, "error", err)
		}
	}()
	outcome := taken.Outcome()
	if err := w.write(h.ctx, func(ctx context.Context) error { return w.store.Finalize(ctx, h.run, outcome) }); err != nil {
		return berth.Outcome{}, err
	}
	if err := taken.Publish(h.ctx, published(h.run, outcome, started, time.Now())); err != nil {
		return berth.Outcome{}, w.unpublished(h, err)
	}
	return outcome, nil
}

// unpublished says in the log that the last artefact could not be written.
func (w *Worker) unpublished(h *hold, err error) error {
	err = fmt.Errorf("publish: %w", err)
	if errors.Is(err, berth.ErrLeaseLost) {
		return err
	}
	fmt.Fprintf(&h.log, "time=%s level=ERROR msg=%q error=%q\n", time.Now().UTC().Format(time.RFC3339Nano), "attempt ended", err)
	return errors.Join(err, w.writeLog(h))
}

// takeReporting runs the engine and writes its progress beside it, at most once
// a progress interval.
func (w *Worker) takeReporting(h *hold) (Taken, error) {
	var latest atomic.Pointer[berth.Progress]
	ended := make(chan struct{})
	reported := make(chan struct{})
	go func() {
		defer close(reported)
		w.report(h, &latest, ended)
	}()
	taken, err := w.engine.Take(h.ctx, h.run, Report{Progress: func(p berth.Progress) { latest.Store(&p) }, Log: &h.log})
	close(ended)
	<-reported
	// Whatever becomes of the backup, what it said is kept.
	h.log.end()
	if logErr := w.writeLog(h); logErr != nil {
		err = errors.Join(err, logErr)
	}
	return taken, err
}

// writeLog writes what the run has said and nobody has written. Only a lost lease
// is an error: a log that cannot be written fails no backup.
func (w *Worker) writeLog(h *hold) error {
	for {
		chunk, text, more := h.log.next()
		if !more {
			return nil
		}
		err := w.bounded(h.ctx, func(ctx context.Context) error { return w.store.AppendLog(ctx, h.run, chunk, text) })
		if errors.Is(err, berth.ErrLeaseLost) {
			return err
		}
		if err != nil {
			return nil // at the next tick
		}
		h.log.written(text)
	}
}

func (w *Worker) report(h *hold, latest *atomic.Pointer[berth.Progress], ended <-chan struct{}) {
	tick := time.NewTicker(progressInterval)
	defer tick.Stop()
	var written *berth.Progress
	for {
		select {
		case <-ended:
			return
		case <-h.ctx.Done():
			return
		case <-tick.C:
		}
		if err := w.writeLog(h); err != nil {
			h.stop(berth.ErrLeaseLost)
			return
		}
		p := latest.Load()
		if p == nil || p == written {
			continue
		}
		err := w.bounded(h.ctx, func(ctx context.Context) error { return w.store.Progress(ctx, h.run, *p) })
		if errors.Is(err, berth.ErrLeaseLost) {
			h.stop(berth.ErrLeaseLost)
			return
		}
		if err == nil {
			written = p
		}
		// Progress that cannot be written now is written at the next tick.
	}
}

// published is the backup as velero-backup.json shows it: ended.
func published(run berth.Run, outcome berth.Outcome, started, completed time.Time) berth.Backup {
	return berth.Backup{
		ID: run.ID, Name: run.Name, Cluster: run.Cluster, Phase: outcome.Phase,
		Labels: run.Labels, Annotations: run.Annotations, Spec: run.Spec,
		CreatedAt: run.CreatedAt, StartedAt: &started, CompletedAt: &completed, ExpiresAt: &run.ExpiresAt,
		Attempt: run.Attempt, Warnings: outcome.Warnings, Errors: outcome.Errors,
		Progress: &outcome.Progress,
	}
}

// verdict is an error that another attempt would meet again.
type verdict interface {
	error
	Outcome() berth.Outcome
}

// fault is a panic of the worker's own.
type fault struct{ value any }

func (f fault) Error() string { return fmt.Sprintf("panic: %v", f.value) }

func (f fault) Outcome() berth.Outcome {
	return berth.Outcome{Phase: berth.PhaseFailed, Reason: "Panic", Message: f.Error(), FailureReason: f.Error()}
}

// giveUp ends an attempt that circumstances do not let go on.
func (w *Worker) giveUp(h *hold, cause error, log *slog.Logger) {
	reason := "AttemptFailed"
	if reasoned, ok := errors.AsType[interface {
		error
		Reason() string
	}](cause); ok {
		reason = reasoned.Reason()
	}
	err := w.write(h.ctx, func(ctx context.Context) error { return w.store.GiveUp(ctx, h.run, reason, cause.Error()) })
	if err != nil {
		log.Error("the attempt cannot be given up: its lease will run out", "reason", reason, "cause", cause, "error", err)
		return
	}
	log.Warn("the attempt is given up", "reason", reason, "cause", cause)
}

// giveBack releases a run whose hold was stopped, while its lease still lasts.
func (w *Worker) giveBack(h *hold) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(h.ctx), w.config.Lease.Margin)
	defer cancel()
	message := fmt.Sprintf("worker %s shut down", w.config.ID)
	return w.write(ctx, func(ctx context.Context) error { return w.store.Release(ctx, h.run, message) })
}

// write writes until it succeeds while the database is away, as long as ctx
// lasts: what is known of a backup is not thrown away for a restart of Postgres.
func (w *Worker) write(ctx context.Context, write func(context.Context) error) error {
	return Outlast(ctx, func() error { return w.bounded(ctx, write) })
}

// bounded ends a write that hangs, as on a connection that died in silence: the
// next one takes another connection.
func (w *Worker) bounded(ctx context.Context, write func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, w.config.Lease.Renew)
	defer cancel()
	return write(ctx)
}

// Outlast does something until it no longer fails for the database being away, as
// long as ctx lasts.
func Outlast(ctx context.Context, do func() error) error {
	backoff := 50 * time.Millisecond
	for {
		err := do()
		if berth.CodeOf(err) != berth.CodeNotReady {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(backoff/2 + rand.N(backoff)):
		}
		backoff = min(2*backoff, 2*time.Second)
	}
}
