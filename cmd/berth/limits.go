package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/spf13/pflag"

	"github.com/berth-backup/berth"
)

// limitFlags are the limits of a cluster that a worker's command line may set.
type limitFlags struct {
	concurrentBackups, itemBlockWorkerCount int
	given                                   []limit
}

// limit is one that the command line names.
type limit struct {
	flag, setting string
	value, most   int
}

func (l *limitFlags) add(flags *pflag.FlagSet) {
	flags.IntVar(&l.concurrentBackups, "concurrent-backups", 1, "set how many backups of the cluster may run at once (left out: as it is stored)")
	flags.IntVar(&l.itemBlockWorkerCount, "item-block-worker-count", 1, "set how many workers the pool of each running backup has (left out: as it is stored)")
}

// read keeps what the command line or the environment named.
func (l *limitFlags) read(flags *pflag.FlagSet) {
	for _, known := range []limit{
		{"concurrent-backups", "concurrentBackups", l.concurrentBackups, berth.MaxConcurrentBackups},
		{"item-block-worker-count", "itemBlockWorkerCount", l.itemBlockWorkerCount, berth.MaxItemBlockWorkerCount},
	} {
		if flags.Changed(known.flag) {
			l.given = append(l.given, known)
		}
	}
}

func (l *limitFlags) check() error {
	for _, given := range l.given {
		if given.value > given.most {
			return fmt.Errorf("--%s must be %d at most", given.flag, given.most)
		}
	}
	return nil
}

// settingsStore is what a cluster's limits are stored in.
type settingsStore interface {
	Settings(ctx context.Context, cluster string) (berth.QueueSettings, error)
	ChangeSettings(ctx context.Context, cluster string, change berth.SettingsChange) (berth.QueueSettings, error)
}

// apply stores the given limits and says where they differ from those that were
// stored. One below 1 counts as 1, as in Velero.
func (l *limitFlags) apply(ctx context.Context, store settingsStore, cluster string, log *slog.Logger) error {
	stored, err := store.Settings(ctx, cluster)
	if err != nil {
		return err
	}
	var change berth.SettingsChange
	for _, given := range l.given {
		if given.value < 1 {
			log.Warn("a limit below 1 counts as 1", "flag", "--"+given.flag, "given", given.value)
			given.value = 1
		}
		former, wanted := stored.ConcurrentBackups, &change.ConcurrentBackups
		if given.setting == "itemBlockWorkerCount" {
			former, wanted = stored.ItemBlockWorkerCount, &change.ItemBlockWorkerCount
		}
		if former == given.value {
			continue
		}
		log.Warn("the command line changes a limit of the cluster", "cluster", cluster, "setting", given.setting, "stored", former, "flag", given.value)
		*wanted = &given.value
	}
	if change == (berth.SettingsChange{}) {
		return nil
	}
	_, err = store.ChangeSettings(ctx, cluster, change)
	return err
}
