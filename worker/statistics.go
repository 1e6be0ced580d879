package worker

import (
	"context"
	"log/slog"
	"time"
)

// StatisticsStore is what Statistics needs of the database.
type StatisticsStore interface {
	// Analyze has Postgres learn what the queue holds, unless it knows or there is
	// next to nothing; done says that nothing is left to do.
	Analyze(ctx context.Context) (done bool, err error)
}

// Statistics has Postgres learn what the queue of a new database holds as soon as
// it holds something: plans that were made while it was empty read all of it.
type Statistics struct {
	Store StatisticsStore
	// Interval is how often it looks. Default 5s; after a failure, a minute.
	Interval time.Duration
	Log      *slog.Logger
}

// Run looks at once and then at every interval, until nothing is left to do or ctx
// ends.
func (s Statistics) Run(ctx context.Context) {
	if s.Interval == 0 {
		s.Interval = 5 * time.Second
	}
	for {
		wait := s.Interval
		done, err := s.Store.Analyze(ctx)
		if done {
			return
		}
		if err != nil && ctx.Err() == nil {
			s.Log.Warn("analyze the queue", "error", err)
			wait = max(wait, time.Minute)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}
