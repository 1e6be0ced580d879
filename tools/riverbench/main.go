// Command riverbench measures River, a queue of jobs on Postgres, as a
// calibration of berth bench queue: no-op jobs on the same server. It prints
// objects of the same form, a line each, for the shape "river".
//
// River admits nothing by a rule: what it does is less than what Berth does.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

func main() {
	databaseURL := flag.String("database-url", os.Getenv("BERTH_DATABASE_URL"), "`URL` of a database on the server to measure")
	iterations := flag.Int("iterations", 200, "how often a wake-up is measured")
	jobs := flag.Int("jobs", 20_000, "how many jobs are worked")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := measure(ctx, *databaseURL, *iterations, *jobs); err != nil {
		fmt.Fprintln(os.Stderr, "riverbench:", err)
		os.Exit(1)
	}
}

// measure takes all measures in a database of its own, which it drops again.
func measure(ctx context.Context, databaseURL string, iterations, jobs int) (err error) {
	if databaseURL == "" || iterations < 1 || jobs < 1 {
		return errors.New("--database-url names no server, or there is nothing to measure")
	}
	server, err := pgx.Connect(ctx, databaseURL)
	if err != nil {
		return err
	}
	defer func() { _ = server.Close(context.WithoutCancel(ctx)) }()
	name := "river_bench_" + strings.ToLower(rand.Text()[:10])
	if _, err := server.Exec(ctx, "create database "+name); err != nil {
		return err
	}
	defer func() {
		_, dropped := server.Exec(context.WithoutCancel(ctx), "drop database "+name+" with (force)")
		err = errors.Join(err, dropped)
	}()
	u, err := url.Parse(databaseURL)
	if err != nil {
		return err
	}
	u.Path = "/" + name
	query := u.Query()
	query.Set("pool_max_conns", "16")
	u.RawQuery = query.Encode()
	pool, err := pgxpool.New(ctx, u.String())
	if err != nil {
		return err
	}
	defer pool.Close()
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: quiet})
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	if err := throughput(ctx, pool, jobs); err != nil {
		return fmt.Errorf("measure jobs a second: %w", err)
	}
	// As it comes, and as its own benchmark sets it.
	if err := wakeUps(ctx, pool, iterations, "default", river.Config{}); err != nil {
		return fmt.Errorf("measure wake-ups: %w", err)
	}
	tuned := river.Config{FetchCooldown: 2 * time.Millisecond, FetchPollInterval: 20 * time.Millisecond}
	if err := wakeUps(ctx, pool, iterations, "tuned", tuned); err != nil {
		return fmt.Errorf("measure wake-ups: %w", err)
	}
	return nil
}
