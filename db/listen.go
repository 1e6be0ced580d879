package db

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/berth-backup/berth"
)

// The channels on which a transaction tells that there is something to do.
// They are hints: whoever listens also polls.
const (
	// ChannelQueue: a cluster's queue changed; the payload is the cluster's id.
	ChannelQueue = "berth_queue"
	// ChannelMirror: a running backup moved on.
	ChannelMirror = "berth_mirror"
)

// probePatience is how long Listen's own notification may be on its way.
const probePatience = 5 * time.Second

// Listen calls hint whenever a transaction told something on one of the
// channels, until ctx ends or the connection breaks. Through a pooler that
// shares connections by the transaction it would hear nothing: where a
// notification of its own does not arrive within 5s it takes its LISTEN back and
// returns berth.ErrNoNotifications.
func (s *Store) Listen(ctx context.Context, channels []string, hint func()) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return border(fmt.Errorf("listen: %w", err))
	}
	// A connection that listened goes to nobody else.
	raw := conn.Hijack()
	defer func() { _ = raw.Close(context.WithoutCancel(ctx)) }()
	probe := "berth_probe_" + strings.ToLower(rand.Text())
	backend, err := onBackend(ctx, raw, "listen "+strings.Join(append(slices.Clone(channels), probe), "; listen "))
	if err != nil {
		return border(fmt.Errorf("listen: %w", err))
	}
	hint() // what happened before LISTEN
	err = s.hear(ctx, raw, probe, hint)
	if errors.Is(err, berth.ErrNoNotifications) {
		err = errors.Join(err, unlisten(ctx, raw, backend))
	}
	for err == nil {
		if _, err = raw.WaitForNotification(ctx); err == nil {
			hint()
		}
	}
	return border(fmt.Errorf("listen: %w", err))
}

// hear tells something on the channel probe from another connection and waits
// until listener hears it; then nobody listens there any more.
func (s *Store) hear(ctx context.Context, listener *pgx.Conn, probe string, hint func()) error {
	if _, err := s.pool.Exec(ctx, "SELECT pg_notify($1, '')", probe); err != nil {
		return err
	}
	patience, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	for {
		told, err := listener.WaitForNotification(patience)
		switch {
		case err != nil && ctx.Err() == nil && errors.Is(patience.Err(), context.DeadlineExceeded):
			return berth.ErrNoNotifications
		case err != nil:
			return err
		case told.Channel == probe:
			_, err := listener.Exec(ctx, "unlisten "+probe)
			return err
		}
		hint()
	}
}

// unlisten takes back what listens on the server's connection backend, which a
// pooler gives to others: they would get the notifications. Each try may come to
// another connection.
func unlisten(ctx context.Context, conn *pgx.Conn, backend int) error {
	const tries = 100
	for range tries {
		found, err := onBackend(ctx, conn, "unlisten *")
		if err != nil || found == backend {
			return err
		}
	}
	return fmt.Errorf("the server's process %d still listens", backend)
}

// onBackend runs statements and gives the process of the server's that ran them.
func onBackend(ctx context.Context, conn *pgx.Conn, statements string) (pid int, err error) {
	// In one message, which a pooler does not divide among its connections.
	results, err := conn.PgConn().Exec(ctx, statements+"; select pg_backend_pid()").ReadAll()
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(results[len(results)-1].Rows[0][0]))
}
