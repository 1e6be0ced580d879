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
	// Interval is how often it looks. Default 5s.
	Interval time.Duration
	Log      *slog.Logger
}

// Run looks at once and then at every interval, until nothing is left to do or ctx
// ends.
func (s Statistics) Run(ctx context.Context) {
	if s.Interval == 0 {
		s.Interval = 5 * time.Second
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	every(ctx, s.Interval, "analyze the queue", s.Log, func(ctx context.Context) error {
		done, err := s.Store.Analyze(ctx)
		if done {
			stop()
		}
		return err
	})
}
