// Package engine measures backups: how long one takes and what it costs, beside a
// bare list of the same objects and, where it is given, beside stock Velero, on the
// same cluster and the same bucket in the same run.
//
// Berth and Velero are measured from outside, as processes of their own: from
// asking for a backup until it is said to be Completed.
package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// Options say what to measure on.
type Options struct {
	// DatabaseURL is an empty database of Berth's own; Config and Kubeconfig lead to
	// the cluster, where namespaces are made whose names begin with bench-.
	DatabaseURL, Kubeconfig string
	Config                  *rest.Config
	// StorageURL is the bucket, as of berth worker --storage-url.
	StorageURL string
	// Velero is stock Velero's program and VeleroPlugins the folder of its S3 plugin;
	// empty for a run without Velero.
	Velero, VeleroPlugins string
	// Rounds is how often each backup is taken; Velero takes each once where it takes
	// longer than slow.
	Rounds int
	// Works are names of WorkNames.
	Works []string
	// Cell is called with each measure as soon as it is known.
	Cell func(Cell) error
	// Progress gets a line for each step.
	Progress io.Writer
}

// Check says what is wrong with the options; nil if nothing is.
func (o Options) Check() error {
	if o.Rounds < 1 {
		return errors.New("--rounds must be at least 1")
	}
	if (o.Velero == "") != (o.VeleroPlugins == "") {
		return errors.New("--velero and --velero-plugins go together")
	}
	for _, name := range o.Works {
		if workNamed(name) == nil {
			return fmt.Errorf("--works: there is no %q; there are: %v", name, WorkNames())
		}
	}
	return nil
}

// slow is how long Velero may take for a backup to be taken several times.
const slow = 20 * time.Second

// bench is one run.
type bench struct {
	Options
	objects dynamic.Interface
	berth   *berth
	velero  *velero
}

// Run measures each work: what a bare list takes, then Berth, then Velero.
func Run(ctx context.Context, o Options) (err error) {
	b := &bench{Options: o}
	config := rest.CopyConfig(o.Config)
	config.QPS = -1
	if b.objects, err = dynamic.NewForConfig(config); err != nil {
		return err
	}
	if b.berth, err = startBerth(ctx, o); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.berth.stop()) }()
	if o.Velero != "" {
		if b.velero, err = startVelero(ctx, o, b.objects); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, b.velero.stop()) }()
	}
	for _, name := range o.Works {
		if err := b.measure(ctx, *workNamed(name)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.Progress, format+"\n", args...)
}

// measure makes what a work is about and measures it.
func (b *bench) measure(ctx context.Context, w work) error {
	b.say("%s: making its objects", w.name)
	namespaces, err := w.make(ctx, b.objects)
	if err != nil {
		return err
	}
	defer removeNamespaces(b.objects, namespaces)
	if w.crowd {
		return b.measureCrowd(ctx, w, namespaces)
	}
	var floor samples
	for range b.Rounds {
		took, err := listAll(ctx, b.Config, w, namespaces)
		if err != nil {
			return err
		}
		floor = append(floor, took)
	}
	if err := b.Cell(Cell{Work: w.name, System: "list", Items: w.items, Seconds: floor.spread()}); err != nil {
		return err
	}
	for _, s := range b.systems() {
		if err := b.measureOne(ctx, w, s, namespaces, floor.median()); err != nil {
			return fmt.Errorf("%s: %w", s.name(), err)
		}
	}
	return b.measureTail(ctx, w, namespaces)
}

// system is a Berth or a Velero that takes backups.
type system interface {
	name() string
	pid() int
	// take takes one backup of these namespaces, until it is Completed.
	take(ctx context.Context, name string, namespaces []string) (taken, error)
	// takeAll asks for a backup of each namespace at once, until all are Completed.
	takeAll(ctx context.Context, prefix string, namespaces []string) (crowd, error)
}

// taken is a backup that was taken.
type taken struct {
	took  time.Duration
	items int
}

// crowd are backups that were taken together: how long it took, and how much of
// the time of all places was in use, from 0 to 1; less than 0 where nobody tells.
type crowd struct {
	took time.Duration
	busy float64
}

func (b *bench) systems() []system {
	all := []system{b.berth}
	if b.velero != nil {
		all = append(all, b.velero)
	}
	return all
}

// measureOne takes a backup some times over.
func (b *bench) measureOne(ctx context.Context, w work, s system, namespaces []string, floor time.Duration) error {
	var times samples
	var peak, requests, items int
	for round := range b.Rounds {
		if round > 0 && times[0] > slow {
			break
		}
		name := fmt.Sprintf("%s-%s-%d", w.name, s.name(), round)
		b.say("%s: %s, round %d", w.name, s.name(), round+1)
		if err := resetPeak(s.pid()); err != nil {
			return err
		}
		before, err := requestsServed(ctx, b.Config)
		if err != nil {
			return err
		}
		done, err := s.take(ctx, name, namespaces)
		if err != nil {
			return err
		}
		after, err := requestsServed(ctx, b.Config)
		if err != nil {
			return err
		}
		rss, err := peakOf(s.pid())
		if err != nil {
			return err
		}
		times = append(times, done.took)
		peak, requests, items = max(peak, rss), after-before, done.items
	}
	size, err := archiveSize(ctx, b.StorageURL, fmt.Sprintf("%s-%s-0", w.name, s.name()), s.name())
	if err != nil {
		return err
	}
	c := Cell{
		Work: w.name, System: s.name(), Items: items, Seconds: times.spread(), PeakMB: round(float64(peak) / 1e6), Requests: &requests,
		ArchiveMB: round(float64(size) / 1e6), PerSecond: round(float64(items) / times.median().Seconds()), OfList: round(times.median().Seconds() / floor.Seconds()),
	}
	return b.Cell(c)
}

// measureCrowd takes a backup of each namespace.
func (b *bench) measureCrowd(ctx context.Context, w work, namespaces []string) error {
	for _, s := range b.systems() {
		var times samples
		busy := 1.0
		for round := range b.Rounds {
			if round > 0 && times[0] > slow {
				break
			}
			b.say("%s: %s, round %d", w.name, s.name(), round+1)
			done, err := s.takeAll(ctx, fmt.Sprintf("%s-%s-%d", w.name, s.name(), round), namespaces)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name(), err)
			}
			times = append(times, done.took)
			busy = min(busy, done.busy)
		}
		c := Cell{Work: w.name, System: s.name(), Items: len(namespaces), Seconds: times.spread()}
		if busy >= 0 {
			c.Busy = round(busy)
		}
		if err := b.Cell(c); err != nil {
			return err
		}
	}
	return nil
}
