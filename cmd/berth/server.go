package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-backup/berth/api"
	"github.com/berth-backup/berth/db"
	"github.com/berth-backup/berth/migrations"
	"github.com/berth-backup/berth/worker"
)

type serverFlags struct {
	databaseURL string
	listen      string
	recheck     time.Duration
	storage     storageFlags
	reaper      reaperFlags
}

func serverCommand() *cobra.Command {
	var f serverFlags
	command := &cobra.Command{
		Use:   "server",
		Short: "Serve the REST API",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return serve(cmd.Context(), f) },
	}
	flags := command.Flags()
	addDatabaseFlag(flags, &f.databaseURL)
	flags.StringVar(&f.listen, "listen", "127.0.0.1:8080", "address of the API")
	addRecheckFlag(flags, &f.recheck)
	f.storage.add(flags)
	f.reaper.add(flags)
	return command
}

// serve migrates the database, then serves until ctx ends.
func serve(ctx context.Context, f serverFlags) error {
	if err := errors.Join(requireDatabase(f.databaseURL), checkRecheck(f.recheck), f.reaper.check(), f.storage.check(ctx)); err != nil {
		return err
	}
	log := newLog()
	if err := migrations.Up(ctx, f.databaseURL); err != nil {
		return err
	}
	store, err := db.Open(ctx, f.databaseURL)
	if err != nil {
		return err
	}
	defer store.Close()
	clusters, err := store.Clusters(ctx)
	if err != nil {
		return err
	}
	for _, cluster := range clusters {
		if err := ensureLocation(ctx, store, f.storage, cluster, log); err != nil {
			return err
		}
	}
	listener, err := net.Listen("tcp", f.listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}

	// Whatever ends first ends the rest.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	hint := make(chan struct{}, 1)
	var loops sync.WaitGroup
	defer loops.Wait()
	defer cancel()
	loops.Go(func() { f.reaper.reaper(store, log).Run(ctx) })
	loops.Go(func() { worker.Janitor{Store: store, Log: log}.Run(ctx) })
	loops.Go(func() { worker.Statistics{Store: store, Log: log}.Run(ctx) })
	loops.Go(func() { worker.Marker{Store: store, Interval: f.recheck, Hint: hint, Log: log}.Run(ctx) })
	loops.Go(func() {
		worker.Rounds{What: "look at the whole queue again", Clusters: store.Clusters, Do: store.Remark, Interval: time.Hour, Log: log}.Run(ctx)
	})
	loops.Go(func() {
		worker.Rounds{What: "predict starts", Clusters: store.Clusters, Do: store.Predict, Interval: 5 * time.Second, Log: log}.Run(ctx)
	})
	loops.Go(func() { listen(ctx, store, []string{db.ChannelQueue}, log, hint) })
	log.Info("serving", "address", listener.Addr().String())
	return serveHTTP(ctx, listener, api.New(store, api.Options{Logger: log}), log)
}

// serveHTTP serves until ctx ends, then lets open requests end.
func serveHTTP(ctx context.Context, listener net.Listener, handler http.Handler, log *slog.Logger) error {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	log.Info("shutting down")
	goodbye, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := server.Shutdown(goodbye); err != nil {
		return fmt.Errorf("shut down: %w", err)
	}
	return nil
}

// listen turns notifications into hints until ctx ends.
func listen(ctx context.Context, store *db.Store, channels []string, log *slog.Logger, hint chan<- struct{}) {
	worker.Listener{
		Listen: func(ctx context.Context, call func()) error { return store.Listen(ctx, channels, call) },
		Hint: func() {
			select {
			case hint <- struct{}{}:
			default:
			}
		},
		Log: log,
	}.Run(ctx)
}
