package k8ssync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-backup/berth"
)

// NamespaceStore is where a cluster's namespaces are written. Several workers
// write the same truth; the store serialises them.
type NamespaceStore interface {
	// SyncNamespaces replaces what is known of the cluster: a name that is not
	// in all does not exist.
	SyncNamespaces(ctx context.Context, cluster string, all []berth.Namespace) error
	// ChangeNamespaces changes the named ones only; Exists is false for one that
	// is gone.
	ChangeNamespaces(ctx context.Context, cluster string, changed []berth.Namespace) error
}

// InventoryOptions say what an Inventory watches and how it writes. The zero
// value watches for berth.DefaultCluster.
type InventoryOptions struct {
	// Cluster is the name under which the namespaces are written. Default
	// berth.DefaultCluster.
	Cluster string
	// Relist is how long a watch is trusted before everything is listed afresh:
	// the longest time that a connection which died in silence can hide a change.
	// Default 5m, shortened by up to a half at random.
	Relist time.Duration
	// Gap is the least time between two writes; what happens meanwhile is
	// written together. Default 100ms.
	Gap time.Duration
	// RetryMin and RetryMax bound the wait after a failed write. Defaults 250ms and 30s.
	RetryMin, RetryMax time.Duration
	// Log takes failed writes and client-go's own words. Default slog.Default().
	Log *slog.Logger
}

// Inventory keeps the rows of one cluster's namespaces equal to the cluster. A
// namespace that is being deleted exists until it is gone.
type Inventory struct {
	client  metadata.Interface
	store   NamespaceStore
	cluster string
	relist  time.Duration
	gap     time.Duration
	retry   backoff
	log     *slog.Logger

	pending *pendingNamespaces
	synced  chan struct{}
}

// NewInventory makes an Inventory of the cluster that config leads to. It
// connects to nothing yet.
func NewInventory(config *rest.Config, store NamespaceStore, o InventoryOptions) (*Inventory, error) {
	if o.Relist < 0 || o.Gap < 0 || o.RetryMin < 0 || o.RetryMax < 0 {
		return nil, errors.New("namespace inventory: a negative duration among the options")
	}
	client, err := metadata.NewForConfig(unlimited(config))
	if err != nil {
		return nil, fmt.Errorf("namespace inventory: make a Kubernetes client: %w", err)
	}
	cluster := cmp.Or(o.Cluster, berth.DefaultCluster)
	return &Inventory{
		client:  client,
		store:   store,
		cluster: cluster,
		relist:  cmp.Or(o.Relist, 5*time.Minute),
		gap:     cmp.Or(o.Gap, 100*time.Millisecond),
		retry:   newBackoff(o.RetryMin, o.RetryMax),
		log:     cmp.Or(o.Log, slog.Default()).With("cluster", cluster),
		pending: newPendingNamespaces(),
		synced:  make(chan struct{}),
	}, nil
}

// Synced is closed when the first complete list has been written.
func (i *Inventory) Synced() <-chan struct{} { return i.synced }

// Run watches and writes until ctx ends, then returns nil: every failure is
// logged and retried for ever. It is called once.
func (i *Inventory) Run(ctx context.Context) error {
	var watching sync.WaitGroup
	watching.Go(func() { i.watch(ctx) })
	i.write(ctx)
	watching.Wait()
	return nil
}

// watch fills pending. Each Reflector begins with a complete list, so that
// replacing it from time to time is what bounds a silent gap.
func (i *Inventory) watch(ctx context.Context) {
	logger := logr.FromSlogHandler(i.log.Handler())
	ctx = logr.NewContext(ctx, logger)
	for ctx.Err() == nil {
		reflector := cache.NewReflectorWithOptions(i.listWatch(), &metav1.PartialObjectMetadata{}, i.pending, cache.ReflectorOptions{
			Logger: &logger,
			Name:   "namespaces",
			// client-go's own cap of a minute would add as much to each outage.
			Backoff: &wait.Backoff{Duration: 250 * time.Millisecond, Factor: 2, Jitter: 1, Steps: 10, Cap: 5 * time.Second},
		})
		trusted, cancel := context.WithTimeout(ctx, jitter(i.relist))
		reflector.RunWithContext(trusted)
		cancel()
	}
}

// listWatch asks for names, labels and little else: an inventory needs no specs.
func (i *Inventory) listWatch() cache.ListerWatcher {
	namespaces := i.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return namespaces.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			watcher, err := namespaces.Watch(ctx, o)
			if ctx.Err() == nil && (utilnet.IsConnectionRefused(err) || utilnet.IsProbableEOF(err)) {
				// A Reflector keeps these to itself; it tells of every other.
				i.log.Warn("namespaces cannot be read", "error", err)
			}
			return watcher, err
		},
	}, i.client)
}

// write empties pending into the store. After a failure nobody knows what was
// written, so that the next write is a complete one.
func (i *Inventory) write(ctx context.Context) {
	failures := 0
	for i.pending.wait(ctx) {
		batch := i.pending.take()
		err := i.send(ctx, batch)
		if ctx.Err() != nil {
			return
		}
		rest := i.gap
		if err != nil {
			failures++
			i.pending.again()
			rest = i.retry.after(failures)
			i.log.Warn("namespaces not written", "error", err, "failures", failures, "retryIn", rest)
		} else {
			failures = 0
			i.noteSynced(batch)
		}
		if !pause(ctx, rest, nil) {
			return
		}
	}
}

func (i *Inventory) send(ctx context.Context, b namespaceBatch) error {
	if b.complete {
		if err := i.store.SyncNamespaces(ctx, i.cluster, b.namespaces); err != nil {
			return fmt.Errorf("write all %d namespaces: %w", len(b.namespaces), err)
		}
		return nil
	}
	if err := i.store.ChangeNamespaces(ctx, i.cluster, b.namespaces); err != nil {
		return fmt.Errorf("write %d changed namespaces: %w", len(b.namespaces), err)
	}
	return nil
}

func (i *Inventory) noteSynced(b namespaceBatch) {
	select {
	case <-i.synced:
	default:
		if b.complete {
			close(i.synced)
			i.log.Info("namespaces known", "count", len(b.namespaces))
		}
	}
}
