package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/worker"
)

func addDatabaseFlag(flags *pflag.FlagSet, databaseURL *string) {
	flags.StringVar(databaseURL, "database-url", "", "URL of the Postgres database, postgres://user@host/name")
}

func requireDatabase(databaseURL string) error {
	if databaseURL == "" {
		return errors.New("no database: set --database-url or BERTH_DATABASE_URL")
	}
	return nil
}

// storageFlags say where the default storage location of a cluster is.
type storageFlags struct {
	data, storageURL string
}

func (s *storageFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&s.data, "data", defaultData(), "folder of the default storage location, where --storage-url is not set")
	flags.StringVar(&s.storageURL, "storage-url", "", "bucket of the default storage location, such as s3://name?region=eu-central-1")
}

func defaultData() string {
	if dir := os.Getenv("XDG_DATA_HOME"); dir != "" {
		return filepath.Join(dir, "berth")
	}
	if home, err := os.UserHomeDir(); err == nil {
		return filepath.Join(home, ".local", "share", "berth")
	}
	return "berth-data"
}

// location is the default storage location of a cluster: a folder of its own.
func (s *storageFlags) location(cluster string) (berth.StorageLocation, error) {
	l := berth.StorageLocation{Cluster: cluster, Name: berth.DefaultStorageLocation, URL: s.storageURL, Prefix: cluster}
	if l.URL != "" {
		return l, nil
	}
	data, err := filepath.Abs(s.data)
	if err != nil {
		return l, fmt.Errorf("find the folder %s: %w", s.data, err)
	}
	l.URL = (&url.URL{Scheme: "file", Path: filepath.ToSlash(data)}).String()
	return l, nil
}

// reaperFlags are those of the reaper, which runs in every process.
type reaperFlags struct {
	interval, grace time.Duration
}

func (r *reaperFlags) add(flags *pflag.FlagSet) {
	flags.DurationVar(&r.interval, "reap-interval", 5*time.Second, "how often to look for lost leases")
	flags.DurationVar(&r.grace, "lease-grace", 15*time.Second, "how long after the end of a lease its backup is taken from the worker")
}

func (r *reaperFlags) check() error {
	if r.interval <= 0 || r.grace <= 0 {
		return errors.New("--reap-interval and --lease-grace must be positive")
	}
	return nil
}

func (r *reaperFlags) reaper(store worker.ReapStore, log *slog.Logger) worker.Reaper {
	return worker.Reaper{Store: store, Interval: r.interval, Grace: r.grace, Log: log}
}
