package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/db"
	"github.com/berth-backup/berth/k8ssync"
	"github.com/berth-backup/berth/objectstore"
	"github.com/berth-backup/berth/worker"
	"github.com/berth-backup/berth/worker/backup"
)

type workerFlags struct {
	databaseURL   string
	cluster       string
	kubeconfig    string
	namespace     string
	limits        limitFlags
	maxBackups    int
	recheck       time.Duration
	shutdownGrace time.Duration
	mirrorQPS     float64
	metricsListen string
	options       backup.Options
	lease         worker.Lease
	storage       storageFlags
	reaper        reaperFlags
}

func workerCommand() *cobra.Command {
	var f workerFlags
	command := &cobra.Command{
		Use:   "worker",
		Short: "Run the backups of one cluster",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.limits.read(cmd.Flags())
			return work(cmd.Context(), f)
		},
	}
	flags := command.Flags()
	addDatabaseFlag(flags, &f.databaseURL)
	flags.StringVar(&f.cluster, "cluster", berth.DefaultCluster, "name of the cluster")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "file that says how to reach the cluster (default: KUBECONFIG, the service account, ~/.kube/config)")
	flags.StringVar(&f.namespace, "velero-namespace", "velero", "Kubernetes namespace of the Backup objects")
	f.limits.add(flags)
	flags.IntVar(&f.maxBackups, "max-backups", 0, "how many backups this worker runs at once (0: as many as the cluster's limit)")
	addRecheckFlag(flags, &f.recheck)
	flags.DurationVar(&f.shutdownGrace, "shutdown-grace", 5*time.Minute, "how long running backups may go on after SIGTERM")
	flags.Float64Var(&f.mirrorQPS, "mirror-qps", 50, "writes of Backup objects a second at most")
	flags.DurationVar(&f.lease.TTL, "lease-ttl", 60*time.Second, "how long a worker may be silent before its backups count as lost")
	flags.DurationVar(&f.lease.Renew, "lease-renew", 20*time.Second, "how often a worker renews its leases")
	flags.DurationVar(&f.lease.Margin, "lease-margin", 10*time.Second, "how long before the end of its lease a worker stops by itself")
	flags.StringVar(&f.metricsListen, "metrics-listen", "", "address of the Prometheus metrics, such as 127.0.0.1:9090 (empty: none)")
	flags.IntVar(&f.options.PageSize, "page-size", backup.DefaultPageSize, "how many objects one request of a list asks for")
	flags.Float64Var(&f.options.QPS, "client-qps", 0, "requests a second that all running backups send to the API server together (0: as many as it takes)")
	flags.IntVar(&f.options.Burst, "client-burst", 0, "how many of them may come at once (0: as many as in a second)")
	flags.Int64Var(&f.options.Memory, "memory", backup.DefaultMemory, "bytes of objects that all running backups hold at a time")
	f.storage.add(flags)
	f.reaper.add(flags)
	return command
}

func (f workerFlags) check() error {
	if problems := validation.IsDNS1123Label(f.cluster); len(problems) > 0 {
		return fmt.Errorf("--cluster %q: %s", f.cluster, problems[0])
	}
	if f.maxBackups < 0 || f.maxBackups > berth.MaxConcurrentBackups {
		return fmt.Errorf("--max-backups must be from 0, which is no cap, to %d", berth.MaxConcurrentBackups)
	}
	if f.mirrorQPS <= 0 {
		return errors.New("--mirror-qps must be positive")
	}
	if f.shutdownGrace < 0 {
		return errors.New("--shutdown-grace cannot be negative")
	}
	if err := f.options.Check(); err != nil {
		return err
	}
	if err := f.lease.Check(); err != nil {
		return fmt.Errorf("--lease-ttl, --lease-renew and --lease-margin: %w", err)
	}
	return errors.Join(requireDatabase(f.databaseURL), checkRecheck(f.recheck), f.limits.check(), f.reaper.check())
}

// storeTimeout is how long one request to an object store may take: less than
// the time between a worker's end of trust in its lease and the next attempt.
func (f workerFlags) storeTimeout() time.Duration {
	return min(objectstore.DefaultTimeout, (f.lease.Margin+f.reaper.grace)*4/5)
}

// work runs a worker until ctx ends and its backups have ended or are back in
// the queue.
func work(ctx context.Context, f workerFlags) error {
	if err := errors.Join(f.check(), f.storage.check(ctx)); err != nil {
		return err
	}
	log := newLog()
	config, err := kubernetesConfig(f.kubeconfig)
	if err != nil {
		return err
	}
	store, err := db.Open(ctx, f.databaseURL)
	if err != nil {
		return err
	}
	defer store.Close()
	if err := prepareCluster(ctx, store, f, log); err != nil {
		return err
	}
	cluster, err := backup.NewCluster(config, f.options)
	if err != nil {
		return err
	}
	inventory, err := k8ssync.NewInventory(config, store, k8ssync.InventoryOptions{Cluster: f.cluster, Log: log})
	if err != nil {
		return err
	}
	id := workerID()
	wake := make(chan struct{}, 1)
	mirror, err := k8ssync.NewMirror(config, store, k8ssync.MirrorOptions{
		Cluster: f.cluster, Namespace: f.namespace, Holder: id, QPS: f.mirrorQPS, Wake: wake, Log: log,
	})
	if err != nil {
		return err
	}
	w := worker.New(store, engine{cluster: cluster, store: store, namespace: f.namespace, storeTimeout: f.storeTimeout()}, worker.Config{
		Cluster: f.cluster, ID: id, MaxBackups: f.maxBackups, Lease: f.lease, Recheck: f.recheck,
		ShutdownGrace: f.shutdownGrace, Ready: inventory.Synced(), Log: log,
	})

	// The loops outlive ctx: what still runs has to be mirrored and watched.
	alive, stop := context.WithCancel(context.WithoutCancel(ctx))
	var loops sync.WaitGroup
	defer loops.Wait()
	defer stop()
	loops.Go(func() { f.reaper.reaper(store, log).Run(alive) })
	loops.Go(func() { worker.Janitor{Store: store, Log: log}.Run(alive) })
	loops.Go(func() { _ = inventory.Run(alive) })
	loops.Go(func() { _ = mirror.Run(alive) })
	loops.Go(func() { reaching(inventory, store, f.cluster, log).Run(alive) })
	hint := make(chan struct{}, 1)
	loops.Go(func() { listen(alive, store, []string{db.ChannelQueue, db.ChannelMirror}, log, hint) })
	loops.Go(func() { fanOut(alive, hint, w.Kick, wake) })
	metrics, err := serveMetrics(alive, f.metricsListen, newPoolCollector(f.cluster, cluster), log)
	if err != nil {
		return err
	}
	loops.Go(func() {
		if err := metrics(); err != nil {
			log.Error("serve the metrics", "error", err)
		}
	})
	log.Info("working", "cluster", f.cluster, "worker", id)
	return w.Run(ctx)
}

// reachInterval is how often a worker sees whether its cluster's API answers: a
// few times in the minute after which what was silent counts as unreachable.
const reachInterval = 15 * time.Second

// reaching notes that the cluster's API answers, as long as it does.
func reaching(inventory *k8ssync.Inventory, store *db.Store, cluster string, log *slog.Logger) worker.Rounds {
	return worker.Rounds{
		What: "see whether the cluster answers", Interval: reachInterval, Log: log,
		Clusters: func(context.Context) ([]string, error) { return []string{cluster}, nil },
		Do: func(ctx context.Context, cluster string) error {
			if err := inventory.Reach(ctx); err != nil {
				return err
			}
			return store.Seen(ctx, cluster)
		},
	}
}

// prepareCluster makes the cluster known and sets what the command line sets.
func prepareCluster(ctx context.Context, store *db.Store, f workerFlags, log *slog.Logger) error {
	if err := store.AddCluster(ctx, f.cluster); err != nil {
		return err
	}
	if err := ensureLocation(ctx, store, f.storage, f.cluster, log); err != nil {
		return err
	}
	return f.limits.apply(ctx, store, f.cluster, log)
}

// fanOut passes each hint on to the dispatcher and to the mirror.
func fanOut(ctx context.Context, hint <-chan struct{}, kick func(), wake chan<- struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hint:
		}
		kick()
		select {
		case wake <- struct{}{}:
		default:
		}
	}
}

// kubernetesConfig reads the kubeconfig that is named, else what kubectl and
// client-go would use.
func kubernetesConfig(path string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	var missing error
	rules.Warner = func(err error) { missing = err } // of the files of KUBECONFIG
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err) && missing != nil:
		return nil, fmt.Errorf("read the kubeconfig: %w", missing)
	case clientcmd.IsEmptyConfig(err):
		return nil, errors.New("no cluster: set --kubeconfig or KUBECONFIG")
	case err != nil:
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	// The API server warns of deprecated kinds: a backup has them all the same.
	config.WarningHandler = rest.NoWarnings{}
	return config, nil
}

// workerID names this process: a restart is another worker.
func workerID() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), strings.ToLower(rand.Text()[:6]))
}
