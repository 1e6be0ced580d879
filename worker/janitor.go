package worker

import (
	"context"
	"log/slog"
	"time"
)

// JanitorStore is what the janitor needs of the database.
type JanitorStore interface {
	// MakePartitions makes the event table's partitions of this month and of
	// those to come.
	MakePartitions(ctx context.Context) error
}

// Janitor keeps the event table's partitions ahead of the calendar.
type Janitor struct {
	Store JanitorStore
	// Interval is how often it looks. Default 24h; after a failure, a minute.
	Interval time.Duration
	Log      *slog.Logger
}

// Run looks at once and then at every interval, until ctx ends.
func (j Janitor) Run(ctx context.Context) {
	if j.Interval == 0 {
		j.Interval = 24 * time.Hour
	}
	every(ctx, j.Interval, "make partitions", j.Log, j.Store.MakePartitions)
}
