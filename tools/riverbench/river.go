package main

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
)

var quiet = slog.New(slog.DiscardHandler)

// nothing is a job that does nothing.
type nothing struct {
	N int `json:"n"`
}

func (nothing) Kind() string { return "nothing" }

// worker tells when it begins a job.
type worker struct {
	river.WorkerDefaults[nothing]
	begun func(nothing)
}

func (w *worker) Work(_ context.Context, job *river.Job[nothing]) error {
	w.begun(job.Args)
	return nil
}

func newClient(pool *pgxpool.Pool, config river.Config, begun func(nothing)) (*river.Client[pgx.Tx], error) {
	config.Logger = quiet
	config.Workers = river.NewWorkers()
	config.Queues = map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 100}}
	river.AddWorker(config.Workers, &worker{begun: begun})
	return river.NewClient(riverpgxv5.New(pool), &config)
}

// throughput inserts jobs one by one and in bulk, and then has all of them worked.
func throughput(ctx context.Context, pool *pgxpool.Pool, jobs int) error {
	var worked atomic.Int64
	all := make(chan struct{})
	client, err := newClient(pool, river.Config{FetchCooldown: 2 * time.Millisecond, FetchPollInterval: 20 * time.Millisecond}, func(nothing) {
		if worked.Add(1) == int64(jobs) {
			close(all)
		}
	})
	if err != nil {
		return err
	}
	single := min(jobs/2, 500)
	var inserts samples
	for n := range single {
		started := time.Now()
		if _, err := client.Insert(ctx, nothing{n}, nil); err != nil {
			return err
		}
		inserts = append(inserts, time.Since(started))
	}
	insert := inserts.cell("enqueue", 0)
	insert.PerSecond = rate(single, inserts.sum())
	if err := write(insert); err != nil {
		return err
	}
	started := time.Now()
	for from := single; from < jobs; from += 5000 {
		var params []river.InsertManyParams
		for n := from; n < min(from+5000, jobs); n++ {
			params = append(params, river.InsertManyParams{Args: nothing{n}})
		}
		if _, err := client.InsertManyFast(ctx, params); err != nil {
			return err
		}
	}
	if err := write(cell{Metric: "enqueue_bulk", N: jobs - single, PerSecond: rate(jobs-single, time.Since(started))}); err != nil {
		return err
	}
	if _, err := pool.Exec(ctx, "vacuum analyze river_job"); err != nil {
		return err
	}
	started = time.Now()
	if err := client.Start(ctx); err != nil {
		return err
	}
	select {
	case <-all:
	case <-ctx.Done():
		return ctx.Err()
	}
	err = write(cell{Depth: jobs, Metric: "jobs", N: jobs, PerSecond: rate(jobs, time.Since(started))})
	return errors.Join(err, client.Stop(ctx))
}

// wakeUps measures from the start of an insert to the beginning of the job, on
// an empty queue.
func wakeUps(ctx context.Context, pool *pgxpool.Pool, iterations int, name string, config river.Config) error {
	begun := make(chan time.Time, 1)
	client, err := newClient(pool, config, func(nothing) { begun <- time.Now() })
	if err != nil {
		return err
	}
	if err := client.Start(ctx); err != nil {
		return err
	}
	const warmUps = 10
	var took samples
	for n := range warmUps + iterations {
		// Not in step with the fetches.
		time.Sleep(time.Duration(n%20) * time.Millisecond)
		started := time.Now()
		if _, err := client.Insert(ctx, nothing{n}, nil); err != nil {
			return err
		}
		select {
		case at := <-begun:
			if n >= warmUps {
				took = append(took, at.Sub(started))
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return errors.Join(write(took.cell("wake_up_"+name, 0)), client.Stop(ctx))
}
