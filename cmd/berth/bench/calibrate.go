package bench

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// calibration measures what the machine can do at this moment, beside what is
// measured: the bare round trip to the server, and the bare commit of one row.
type calibration struct {
	conn   *pgx.Conn
	record *record
}

func (q *queue) calibration(ctx context.Context) (calibration, error) {
	conn, err := pgx.Connect(ctx, q.url)
	if err != nil {
		return calibration{}, err
	}
	if _, err := conn.Exec(ctx, "create table if not exists bench_calibration (n int)"); err != nil {
		return calibration{}, fmt.Errorf("calibrate: %w", err)
	}
	return calibration{conn, q.record}, nil
}

func (c calibration) close(ctx context.Context) { _ = c.conn.Close(ctx) }

func (c calibration) measure(ctx context.Context) error {
	if err := c.run(ctx, "bare_round_trip", "select 1"); err != nil {
		return err
	}
	return c.run(ctx, "bare_commit", "insert into bench_calibration values (1)")
}

func (c calibration) run(ctx context.Context, metric, sql string) error {
	return c.record.clock(metric, func() error {
		if _, err := c.conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("calibrate: %w", err)
		}
		return nil
	})
}
