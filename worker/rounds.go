package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Rounds does one thing for every cluster, at once and then at every interval.
type Rounds struct {
	// What names it in the log.
	What string
	// Clusters lists the names of all clusters.
	Clusters func(ctx context.Context) ([]string, error)
	Do       func(ctx context.Context, cluster string) error
	Interval time.Duration
	Log      *slog.Logger
}

// Run goes round until ctx ends. After a failure it comes back within a minute.
func (r Rounds) Run(ctx context.Context) { every(ctx, r.Interval, r.What, r.Log, r.round) }

func (r Rounds) round(ctx context.Context) error {
	clusters, err := r.Clusters(ctx)
	if err != nil {
		return err
	}
	// One cluster's trouble is not in another one's way.
	var failures []error
	for _, name := range clusters {
		if err := r.Do(ctx, name); err != nil {
			failures = append(failures, fmt.Errorf("cluster %s: %w", name, err))
		}
	}
	return errors.Join(failures...)
}
