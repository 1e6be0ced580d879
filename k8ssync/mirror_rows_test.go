package k8ssync

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/berth-backup/berth"
)

// mirrorRows is a MirrorStore in memory that can fail.
type mirrorRows struct {
	mu       sync.Mutex
	rows     []*mirrorRow
	leader   string
	leaseEnd time.Time
	err      error
	// looks counts the calls of Mirrors.
	looks int
}

type mirrorRow struct {
	backup  berth.Backup
	changes int64
	// What was reported last.
	uid      string
	through  int64
	position int
	reports  int
}

func (r *mirrorRows) LeadMirror(_ context.Context, cluster, holder string, ttl time.Duration) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if cluster != "east" {
		return false, fmt.Errorf("wrong cluster %q", cluster)
	}
	if r.err != nil {
		return false, r.err
	}
	if r.leader != holder && time.Now().Before(r.leaseEnd) {
		return false, nil
	}
	r.leader, r.leaseEnd = holder, time.Now().Add(ttl)
	return true, nil
}

func (r *mirrorRows) Mirrors(_ context.Context, _ string, limit int) ([]berth.Mirror, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return nil, r.err
	}
	r.looks++
	var behind []berth.Mirror
	for _, row := range r.rows {
		if row.behind() && len(behind) < limit {
			behind = append(behind, row.mirror())
		}
	}
	return behind, nil
}

func (r *mirrorRows) Mirrored(_ context.Context, m berth.Mirror, uid string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return r.err
	}
	row := r.find(m.Backup.ID)
	row.uid, row.through, row.position = uid, m.Through, positionOf(m.Backup)
	row.reports++
	return nil
}

func (r *mirrorRows) find(id uuid.UUID) *mirrorRow {
	return r.rows[slices.IndexFunc(r.rows, func(row *mirrorRow) bool { return row.backup.ID == id })]
}

func (r *mirrorRow) behind() bool {
	return r.through < r.changes || r.position != positionOf(r.backup)
}

func (r *mirrorRow) mirror() berth.Mirror {
	return berth.Mirror{Backup: r.backup, Seq: 1, ObjectUID: r.uid, Through: r.changes}
}

func positionOf(b berth.Backup) int {
	if b.Queue == nil {
		return 0
	}
	return b.Queue.Position
}

func (r *mirrorRows) setErr(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

// add enqueues a backup and returns it.
func (r *mirrorRows) add(name string) berth.Backup {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	b := berth.Backup{
		ID: uuid.New(), Name: name, Cluster: "east", Phase: berth.PhaseQueued, Version: 1,
		CreatedAt: now, EnqueuedAt: &now, Queue: &berth.QueueEntry{Position: 1},
	}
	r.rows = append(r.rows, &mirrorRow{backup: b, changes: 1})
	return b
}

// change edits a row as the store does: each phase is a version.
func (r *mirrorRows) change(id uuid.UUID, edit func(*berth.Backup)) berth.Backup {
	r.mu.Lock()
	defer r.mu.Unlock()
	row := r.find(id)
	before := row.backup.Phase
	edit(&row.backup)
	row.changes++
	if row.backup.Phase != before {
		row.backup.Version++
	}
	return row.backup
}

// mirrored returns an error while a backup's object is behind.
func (r *mirrorRows) mirrored(ids ...uuid.UUID) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		if row := r.find(id); row.behind() {
			return fmt.Errorf("backup %s is behind", row.backup.Name)
		}
	}
	return nil
}

func (r *mirrorRows) get(id uuid.UUID) mirrorRow {
	r.mu.Lock()
	defer r.mu.Unlock()
	return *r.find(id)
}
