package db

import (
	"context"
	"fmt"
)

// The channels on which a transaction tells that there is something to do.
// They are hints: whoever listens also polls.
const (
	// ChannelQueue: a cluster's queue changed; the payload is the cluster's id.
	ChannelQueue = "berth_queue"
	// ChannelMirror: a running backup moved on.
	ChannelMirror = "berth_mirror"
)

// Listen calls hint whenever a transaction told something on one of the
// channels, until ctx ends or the connection breaks. Through a pooler that
// shares connections by the transaction it hears nothing.
func (s *Store) Listen(ctx context.Context, channels []string, hint func()) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return border(fmt.Errorf("listen: %w", err))
	}
	// A connection that listened goes to nobody else.
	raw := conn.Hijack()
	defer func() { _ = raw.Close(context.WithoutCancel(ctx)) }()
	for _, channel := range channels {
		if _, err := raw.Exec(ctx, "listen "+channel); err != nil {
			return border(fmt.Errorf("listen: %w", err))
		}
	}
	hint() // what happened before the first LISTEN
	for {
		if _, err := raw.WaitForNotification(ctx); err != nil {
			return border(fmt.Errorf("listen: %w", err))
		}
		hint()
	}
}
