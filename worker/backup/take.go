// Package backup takes one backup: it finds out what a cluster has, lists what
// the spec asks for and streams it into an archive of Velero's format 1.1.0.
//
// Two invariants hold at every instant, also when the process is killed: an
// object of the store that belongs to another backup is never changed, and a
// backup is visible (its velero-backup.json exists) only when all of it is there.
package backup

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/version"

	"github.com/berth-backup/berth"
)

// Job is one attempt to take a backup.
type Job struct {
	// Run.ItemBlockWorkerCount goroutines bring the objects into the archive, at
	// least 1.
	Run berth.Run
	// Namespace is that of the Backup objects, where resource policies are.
	Namespace string
	// Progress, if set, is called from several goroutines, one at a time, for
	// every some objects: it must be cheap. UpdatedAt is not set.
	Progress func(berth.Progress)
	// Log, if set, takes the lines of the log as they are written.
	Log io.Writer
	// Pods remembers, for the next attempt, whose hooks have begun. Without one
	// nobody does.
	Pods PodLog
}

// Taken is a backup whose artefacts are written, and that does not exist yet.
type Taken struct {
	// Outcome is Completed or PartiallyFailed with its counts.
	Outcome berth.Outcome
	// Adopted says that a former attempt had published the backup: Outcome is
	// what it recorded.
	Adopted bool
	// Artefacts are what was written, in Velero's terms everything but
	// velero-backup.json.
	Artefacts []Artefact
	// ServerVersion is that of the cluster's API server; empty where Adopted.
	ServerVersion version.Info

	folder folder
	// record is velero-backup.json as it was found, where Adopted.
	record Artefact
}

// Take takes a backup, as far as it can be taken without being visible: Publish
// makes it exist. Parts that cannot be read are errors of the outcome. Take
// itself fails with a *Failure where another attempt would fare the same, with
// berth.ErrLeaseLost where a later attempt has begun, and with any other error
// where circumstances forbid it; one with a method Reason() string names them. When ctx ends it stops at once and leaves at
// most whole objects that precede velero-backup.json. No goroutine outlives it.
func Take(ctx context.Context, cluster *Cluster, store Store, job Job) (taken *Taken, err error) {
	log := newRunLog(job.Log)
	err = guarded(func() error {
		taken, err = take(ctx, cluster, folder{candid{store}, job.Run}, job, log)
		return err
	})
	if err != nil {
		log.failure(err)
		return nil, fmt.Errorf("take backup %s: %w", job.Run.Name, reasoned(err))
	}
	return taken, nil
}

func take(ctx context.Context, cluster *Cluster, f folder, job Job, log *runLog) (*Taken, error) {
	log.info("attempt started", "name", job.Run.Name, "id", job.Run.ID, "attempt", job.Run.Attempt, "fence", job.Run.Fence)
	adopted, err := f.adopt(ctx)
	if err != nil {
		return nil, err
	}
	if adopted != nil {
		log.info("a former attempt had published the backup: it is taken over", "phase", adopted.Outcome.Phase)
		return adopted, nil
	}
	found, err := cluster.discover(ctx)
	if err != nil {
		return nil, err
	}
	also, problems, err := cluster.policyOf(ctx, job.Run.Spec, job.Namespace)
	if err != nil {
		return nil, err
	}
	if len(problems) > 0 {
		return nil, &Failure{Reason: ReasonInvalidSpec, Message: strings.Join(problems, "; ")}
	}
	there, deleted, err := cluster.withoutDeleted(ctx, job.Run.Contents.Names)
	if err != nil {
		return nil, err
	}
	job.Run.Contents.Names = there
	p, err := planOf(job.Run, also, found)
	if err != nil {
		return nil, err
	}
	for _, name := range deleted {
		p.warnings = append(p.warnings, line{name, fmt.Sprintf("namespace %s was deleted after the backup was admitted: it is left out", name)})
	}
	claim, err := f.claim(ctx)
	if err != nil {
		return nil, err
	}
	c := newCollector(ctx, cluster, p, job, log)
	log.info("backup started", "kubernetes", found.version.GitVersion, "namespaces", len(job.Run.Contents.Names))
	for _, l := range p.errors {
		c.results.error(l.namespace, l.text)
	}
	for _, l := range p.warnings {
		c.results.warning(l.namespace, l.text)
	}
	if err := c.thaw(ctx); err != nil {
		return nil, err
	}
	tarball, err := f.create(ctx, ObjectName(job.Run.Name, ArtefactArchive), func(w io.Writer) error { return c.archiveTo(ctx, w) })
	if err != nil {
		return nil, err
	}
	tarball.Name = ArtefactArchive
	c.warnOfNewNamespaces(ctx)
	c.warnOfVolumes()
	c.warnOfNothing()
	outcome := c.outcome()
	log.info("backup collected", "phase", outcome.Phase, "items", outcome.Progress.ItemsBackedUp,
		"errors", outcome.Errors, "warnings", outcome.Warnings)
	list := resourceListOf(p.ledgers)
	descriptions, err := f.writeDescriptions(ctx, log, c.results, list)
	if err != nil {
		return nil, err
	}
	outcome.Artifacts, outcome.Kinds = append([]Artefact{claim, tarball}, descriptions...), list.counts()
	return &Taken{Outcome: outcome, Artefacts: outcome.Artifacts, ServerVersion: found.version, folder: f}, nil
}

func newCollector(lease context.Context, cluster *Cluster, p plan, job Job, log *runLog) *collector {
	c := &collector{
		cluster: cluster, run: job.Run, plan: p, workers: max(job.Run.ItemBlockWorkerCount, 1), budget: cluster.budget,
		results: &results{log: log}, meter: &meter{report: job.Progress}, related: newRelated(), pods: job.Pods,
		lease: lease, volumes: map[string]string{}, classes: map[string]string{},
	}
	if c.pods == nil {
		c.pods = noPodLog{}
	}
	c.pool = newPool(c.workers)
	return c
}

// archiveTo writes the archive of everything that the plan lists.
func (c *collector) archiveTo(ctx context.Context, w io.Writer) error {
	a, err := newArchive(w, time.Now())
	if err != nil {
		return err
	}
	c.archive = a
	collectErr := c.collect(ctx)
	closeErr := a.close()
	if collectErr != nil {
		return collectErr
	}
	return closeErr
}

func (c *collector) outcome() berth.Outcome {
	o := berth.Outcome{Phase: berth.PhaseCompleted, Progress: c.meter.progress()}
	o.Progress.HooksAttempted, o.Progress.HooksFailed = c.hookCounts.attempted, c.hookCounts.failed
	if o.Errors, o.Warnings = c.results.counts(); o.Errors > 0 {
		o.Phase = berth.PhasePartiallyFailed
	}
	return o
}
