package backup

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

// Options set up the access to a cluster. The zero value is useful.
type Options struct {
	// PageSize is how many objects one request of a list asks for. Default 500.
	PageSize int
	// ConcurrentLists is how many lists one backup reads at a time. Default 4.
	ConcurrentLists int
	// RequestTimeout is how long the API server may send nothing before a
	// run is given up. Default 90 s: what an API server itself waits for, it
	// gives up after 60 s, and says so.
	RequestTimeout time.Duration
	// RetryWait is the pause before a failed page is asked for again; it
	// doubles each time. Default 200 ms.
	RetryWait time.Duration
	// Memory is how many bytes of objects all runs hold at a time. Default
	// DefaultMemory, at least 1 MiB.
	Memory int64
	// QPS is how many requests a second all runs send together, Burst how many at
	// once. Default 0: no limit of the client's own.
	QPS   float64
	Burst int
}

// minMemory lets a few batches pass beside each other.
const minMemory = 1 << 20

// DefaultPageSize is Velero's.
const DefaultPageSize = 500

// Check says what is wrong with the options; nil if nothing is.
func (o Options) Check() error {
	for _, option := range []struct {
		flag  string
		wrong bool
	}{
		{"--page-size must be from 1 to 10000", o.PageSize < 0 || o.PageSize > 10_000},
		{"--client-qps cannot be negative", !(o.QPS >= 0)},
		{"--client-burst cannot be negative", o.Burst < 0},
		{fmt.Sprintf("--memory must be at least %d", minMemory), o.Memory < 0 || o.Memory > 0 && o.Memory < minMemory},
		{"the options of a cluster cannot be negative", o.ConcurrentLists < 0 || o.RequestTimeout < 0 || o.RetryWait < 0},
	} {
		if option.wrong {
			return errors.New(option.flag)
		}
	}
	return nil
}

func (o Options) withDefaults() (Options, error) {
	if err := o.Check(); err != nil {
		return Options{}, err
	}
	if o.PageSize == 0 {
		o.PageSize = DefaultPageSize
	}
	if o.ConcurrentLists == 0 {
		o.ConcurrentLists = 4
	}
	if o.RequestTimeout == 0 {
		o.RequestTimeout = 90 * time.Second
	}
	if o.RetryWait == 0 {
		o.RetryWait = 200 * time.Millisecond
	}
	if o.Memory == 0 {
		o.Memory = DefaultMemory
	}
	if o.Burst == 0 {
		o.Burst = int(o.QPS) + 1
	}
	return o, nil
}

// Cluster reads one Kubernetes cluster. All runs of a process share it.
type Cluster struct {
	options   Options
	config    *rest.Config
	transport http.RoundTripper
	rest      rest.Interface
	budget    *budget

	mu sync.Mutex
	// running are the backups that are being taken now.
	running map[*collector]bool
}

// NewCluster makes the access to the cluster that config names. It sends no
// request. Without a QPS requests have no limit of the client's own: the API
// server has its priority and fairness.
func NewCluster(config *rest.Config, options Options) (*Cluster, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Cluster{options: options, config: rest.CopyConfig(config), budget: newBudget(options.Memory), running: map[*collector]bool{}}
	c.config.QPS = -1
	if options.QPS > 0 {
		c.config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(float32(options.QPS), options.Burst)
	}
	c.config.UserAgent = "berth"
	// A list takes as long as it takes; its silences are bounded instead.
	c.config.Timeout = 0
	// The server's advice on deprecated versions is for whoever wrote them.
	c.config.WarningHandler = rest.NoWarnings{}
	// Objects are compressed once, on their way to the archive. Compressing
	// them for the way here as well costs both ends more than it saves.
	c.config.DisableCompression = true
	if c.transport, err = rest.TransportFor(c.config); err != nil {
		return nil, fmt.Errorf("access to the cluster: %w", err)
	}
	client, err := discovery.NewDiscoveryClientForConfigAndClient(c.config, &http.Client{Transport: c.transport})
	if err != nil {
		return nil, fmt.Errorf("access to the cluster: %w", err)
	}
	c.rest = client.RESTClient()
	return c, nil
}
