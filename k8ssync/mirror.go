package k8ssync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/berth-backup/berth"
)

const (
	// mirrorPage is how many backups one round takes beside those that wait for
	// another try.
	mirrorPage = 100
	// mirrorParallel is how many objects are written at once, so that the way
	// to a distant API server does not bound the rate.
	mirrorParallel = 4
	// mirrorBurst is the time for which a hint is held back: it seldom comes alone.
	mirrorBurst = 20 * time.Millisecond
	// brokenServer is how many answers of 5xx in a row mean that the server and
	// not the objects are the reason.
	brokenServer = 5
)

// MirrorStore knows which backups' objects are behind their rows.
type MirrorStore interface {
	// LeadMirror makes holder the cluster's mirror for ttl from now, or longer if
	// it is already, and says whether it is. Its time is the store's clock.
	LeadMirror(ctx context.Context, cluster, holder string, ttl time.Duration) (bool, error)
	// Mirrors gives at most limit backups whose object is behind, also in its
	// queue position.
	Mirrors(ctx context.Context, cluster string, limit int) ([]berth.Mirror, error)
	// Mirrored records that the object with that uid equals m.Backup as far as
	// m goes. It takes m at its word even where an earlier report knew more: a
	// mirror that reports late may also have written late. uid is empty where
	// no object was found.
	Mirrored(ctx context.Context, m berth.Mirror, uid string) error
}

// MirrorOptions say how a Mirror writes. Holder is the only one without a default.
type MirrorOptions struct {
	// Cluster names the rows. Default berth.DefaultCluster.
	Cluster string
	// Namespace is the Kubernetes namespace of the Backup objects. Default "velero".
	Namespace string
	// Holder tells this process from every other that mirrors the cluster.
	Holder string
	// TTL is how long this process leads without a word. Default 15s, at least 1s.
	// It writes nothing more after two thirds of it.
	TTL time.Duration
	// Poll is the longest time between two looks at the rows. Default 1s.
	Poll time.Duration
	// QPS is how many writes a second reach the API server at most. Default 50.
	QPS float64
	// Wake, if set, hints that a row has changed. Whoever sends must not wait for
	// the Mirror to listen.
	Wake <-chan struct{}
	// RetryMin and RetryMax bound the wait after a failure. Defaults 250ms and 30s.
	RetryMin, RetryMax time.Duration
	// Log takes failures. Default slog.Default().
	Log *slog.Logger
}

// Mirror makes a Backup object for each backup and keeps its status equal to
// the row. Any number run; one of a cluster writes. A former leader that wakes
// up is harmless: each write names the uid and the version that it replaces.
type Mirror struct {
	store   MirrorStore
	objects objects
	cluster string
	holder  string
	ttl     time.Duration
	poll    time.Duration
	wake    <-chan struct{}
	retry   backoff
	log     *slog.Logger

	// leadSent is when the lease that this process holds was asked for; zero
	// where it holds none.
	leadSent time.Time
	// ledLast is what the store last said of that.
	ledLast bool
	// delayed are the backups that failed and when each is tried again.
	delayed map[uuid.UUID]delay
}

type delay struct {
	failures int
	until    time.Time
}

// try is how writing one backup's object ended, if it did within the round.
type try struct {
	ended bool
	err   error
}

// NewMirror makes a Mirror into the cluster that config leads to. It connects
// to nothing yet.
func NewMirror(config *rest.Config, store MirrorStore, o MirrorOptions) (*Mirror, error) {
	if o.Holder == "" {
		return nil, errors.New("mirror: no holder among the options")
	}
	if o.TTL < 0 || o.Poll < 0 || o.QPS < 0 || o.RetryMin < 0 || o.RetryMax < 0 {
		return nil, errors.New("mirror: a negative number among the options")
	}
	ttl := cmp.Or(o.TTL, 15*time.Second)
	if ttl < time.Second {
		return nil, fmt.Errorf("mirror: a ttl of %s, 1s at least", ttl)
	}
	client, err := dynamic.NewForConfig(unlimited(config))
	if err != nil {
		return nil, fmt.Errorf("mirror: make a Kubernetes client: %w", err)
	}
	cluster := cmp.Or(o.Cluster, berth.DefaultCluster)
	return &Mirror{
		store:   store,
		objects: newObjects(client, cmp.Or(o.Namespace, "velero"), cmp.Or(o.QPS, 50), ttl/3),
		cluster: cluster,
		holder:  o.Holder,
		ttl:     ttl,
		poll:    cmp.Or(o.Poll, time.Second),
		wake:    o.Wake,
		retry:   newBackoff(o.RetryMin, o.RetryMax),
		log:     cmp.Or(o.Log, slog.Default()).With("cluster", cluster),
		delayed: map[uuid.UUID]delay{},
	}, nil
}

// Run mirrors until ctx ends, then returns nil: every failure is logged and
// retried for ever. It is called once.
func (m *Mirror) Run(ctx context.Context) error {
	failures := 0
	for ctx.Err() == nil {
		more, err := m.turn(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			failures++
			wait := m.retry.after(failures)
			m.log.Warn("mirror stopped", "error", err, "failures", failures, "retryIn", wait)
			// No hint shortens this wait: the next row would fare no better.
			pause(ctx, wait, nil)
		case m.leadSent.IsZero():
			failures = 0
			pause(ctx, jitter(m.ttl/3), nil)
		case more:
			failures = 0
		default:
			failures = 0
			pause(ctx, jitter(m.poll), m.wake)
			pause(ctx, min(mirrorBurst, m.poll), nil)
		}
	}
	return nil
}

// turn leads, if it can, and then mirrors one page. more says that some of it
// was done and that there is more to do.
func (m *Mirror) turn(ctx context.Context) (more bool, err error) {
	if err := m.lead(ctx); err != nil {
		return false, err
	}
	if m.leadSent.IsZero() {
		return false, nil
	}
	// What is under way ends before another can lead.
	trusted, cancel := context.WithDeadline(ctx, m.leadSent.Add(m.ttl*2/3))
	defer cancel()
	more, err = m.round(trusted)
	if more && (trusted.Err() != nil || errors.Is(err, errNoTimeLeft)) {
		// The page was too long for what was left of the lease, which is no failure.
		m.leadSent = time.Time{}
		return true, m.lead(ctx)
	}
	return more, err
}

// lead asks for the lease or renews it, once a third of its time is over.
func (m *Mirror) lead(ctx context.Context) error {
	if !m.leadSent.IsZero() && time.Since(m.leadSent) < m.ttl/3 {
		return nil
	}
	sent := time.Now()
	m.leadSent = time.Time{}
	ok, err := m.store.LeadMirror(ctx, m.cluster, m.holder, m.ttl)
	if err != nil {
		return fmt.Errorf("lead the mirror of cluster %s: %w", m.cluster, err)
	}
	if ok {
		m.leadSent = sent
	}
	if ok != m.ledLast {
		m.ledLast = ok
		m.log.Info("mirror's leader changed", "holder", m.holder, "leads", ok)
	}
	return nil
}

// round mirrors one page, several objects at a time. An error is one that the
// next object would meet as well; what concerns one object alone is logged and
// delays that one.
func (m *Mirror) round(ctx context.Context) (more bool, err error) {
	limit := mirrorPage + len(m.delayed)
	behind, err := m.store.Mirrors(ctx, m.cluster, limit)
	if err != nil {
		return false, fmt.Errorf("list the backups to mirror: %w", err)
	}
	complete := len(behind) < limit
	if complete {
		m.forget(behind)
	}
	due := m.due(behind)
	tries := make([]try, len(due))
	var broken atomic.Int32
	var over atomic.Bool
	var group errgroup.Group
	group.SetLimit(mirrorParallel)
	for i, mirror := range due {
		group.Go(func() error {
			if over.Load() {
				return nil
			}
			err := m.one(ctx, mirror)
			switch {
			case err == nil:
				broken.Store(0)
			case ctx.Err() != nil, concernsAll(err), isServerError(err) && broken.Add(1) >= brokenServer:
				// What is under way is not broken off: it may have been written.
				over.Store(true)
				return err
			}
			tries[i] = try{ended: true, err: err}
			return nil
		})
	}
	err = group.Wait()
	ended := 0
	for i, try := range tries {
		if try.ended {
			m.note(due[i], try.err)
			ended++
		}
	}
	return ended > 0 && (!complete || over.Load()), err
}

// one makes a backup's object equal to its row and says so to the store.
func (m *Mirror) one(ctx context.Context, mirror berth.Mirror) error {
	uid, err := m.objects.put(ctx, mirror)
	if err != nil {
		return fmt.Errorf("mirror backup %s (%s): %w", mirror.Backup.Name, mirror.Backup.ID, err)
	}
	if err := m.store.Mirrored(ctx, mirror, uid); err != nil {
		return &storeError{fmt.Errorf("record that backup %s (%s) is mirrored: %w", mirror.Backup.Name, mirror.Backup.ID, err)}
	}
	return nil
}

// due leaves out the backups that wait for another try.
func (m *Mirror) due(behind []berth.Mirror) []berth.Mirror {
	now := time.Now()
	var due []berth.Mirror
	for _, mirror := range behind {
		if !m.delayed[mirror.Backup.ID].until.After(now) {
			due = append(due, mirror)
		}
	}
	return due
}

// note remembers how a try ended, and logs a failure.
func (m *Mirror) note(mirror berth.Mirror, err error) {
	id := mirror.Backup.ID
	if err == nil {
		delete(m.delayed, id)
		return
	}
	failures := m.delayed[id].failures + 1
	wait := m.retry.after(failures)
	m.delayed[id] = delay{failures: failures, until: time.Now().Add(wait)}
	m.log.Warn("backup not mirrored", "error", err, "failures", failures, "retryIn", wait)
}

// forget drops the delays of backups that are behind no longer.
func (m *Mirror) forget(behind []berth.Mirror) {
	still := make(map[uuid.UUID]bool, len(behind))
	for _, mirror := range behind {
		still[mirror.Backup.ID] = true
	}
	for id := range m.delayed {
		if !still[id] {
			delete(m.delayed, id)
		}
	}
}
