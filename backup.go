// Package berth is the domain of Berth, a queue for Kubernetes backups: what a
// backup is, which phases it goes through, which namespaces it claims and when
// it may start. It decides on values and touches nothing: no database, no
// network, no clock.
package berth

import (
	"time"

	"github.com/google/uuid"
)

// DefaultCluster is the cluster of a request that names none.
const DefaultCluster = "default"

// MaxConcurrentBackups is the greatest limit that a cluster may have.
const MaxConcurrentBackups = 10000

// MaxItemBlockWorkerCount is the greatest number of workers that the pool of one
// running backup may have.
const MaxItemBlockWorkerCount = 1000

// MaxOverlapping is how many backups ahead that overlap one are counted.
const MaxOverlapping = 1000

// MaxPriority is the greatest priority, in minutes, and the least is its
// negative: a week.
const MaxPriority = 7 * 24 * 60

// DefaultMaxAttempts is how many leases of one backup may be lost before it fails.
const DefaultMaxAttempts = 3

// MaxLog is how many bytes of the log of one attempt are kept in the database, and
// MaxLogChunk how many of them are written at a time.
const (
	MaxLog      = 4 << 20
	MaxLogChunk = 64 << 10
)

// Backup is one backup as a reader sees it at one instant. Pointers are nil
// where a field makes no sense in the backup's phase.
type Backup struct {
	ID      uuid.UUID
	Name    string
	Cluster string
	Phase   Phase
	// Reason is a word for what last happened to the backup, Message a sentence.
	Reason, Message     string
	Labels, Annotations map[string]string
	Spec                Spec
	// Priority is in minutes: as if it had been asked for so much earlier.
	Priority int
	// NotBefore is when it enters the queue at the earliest.
	NotBefore *time.Time
	// StartDeadline is when it must have been admitted first, else it fails
	// without having run.
	StartDeadline *time.Time

	CreatedAt   time.Time
	EnqueuedAt  *time.Time
	ReadyAt     *time.Time
	StartedAt   *time.Time
	CompletedAt *time.Time
	ExpiresAt   *time.Time

	// Queue is nil unless the backup waits.
	Queue      *QueueEntry
	Namespaces Namespaces
	Progress   *Progress
	// Attempt starts at 1 and rises when a lost lease is reaped.
	Attempt, MaxAttempts int
	Worker               string
	Slot                 *int
	Warnings, Errors     int
	ValidationErrors     []string
	FailureReason        string
	// Artifacts are what an ended backup has in the store, all but
	// velero-backup.json, and Kinds how many objects of each kind are in its archive
	// ("apps/v1/Deployment"). Nil where there are none.
	Artifacts []Artifact
	Kinds     map[string]int
	// Version moves on every change of the phase; it orders what a reader saw.
	Version int64
}

// Namespaces is what a backup claims, and, from its admission on, what it holds.
type Namespaces struct {
	// All is true for everything and for everything-but.
	All bool
	// Names are the namespaces claimed; empty where All is true.
	Names []string
	// Except are the holes in an everything-but.
	Except []string
	// Frozen are the namespaces that existed when the backup was admitted: its
	// contents. Nil before that.
	Frozen []string
	// Missing are those that it names and that did not exist then, Excluded those
	// that carried LabelExclude then. Nil before that.
	Missing, Excluded []string
}

// Progress is how far a running backup has come.
type Progress struct {
	ItemsBackedUp, TotalItems int
	// Bytes are those of the items' JSON, before compression.
	Bytes int64
	// HooksAttempted and HooksFailed count commands that were executed in pods.
	HooksAttempted, HooksFailed int
	UpdatedAt                   time.Time
}

// QueueEntry is a waiting backup's place and what it waits for.
type QueueEntry struct {
	// Position counts from 1 in the cluster's order; it is computed, never
	// stored. 0 for one that is New and has none.
	Position int
	// OverlappingAhead counts the active backups ahead that share a namespace, at
	// most MaxOverlapping of them.
	OverlappingAhead int
	BlockedBy        []Blocker
	// ETA is nil behind the first MaxForecast places, and in the answer to a
	// request behind the first hundred.
	ETA *ETA
}

// Blocker is one thing in the way of a waiting backup.
type Blocker struct {
	Reason WaitReason
	// Backup is the one in the way; nil where a setting is.
	Backup *BackupRef
	// Namespaces are those that both need, at most 100 of them.
	Namespaces []string
	// Setting names the setting in the way, such as "concurrentBackups=2"; else empty.
	Setting string
	// Since is when this came to be in the way; nil where nobody recorded it.
	Since *time.Time
}

// BackupRef names a backup.
type BackupRef struct {
	ID   uuid.UUID
	Name string
}

// Queue is one cluster's queue at one instant.
type Queue struct {
	Settings QueueSettings
	Running  []Backup
	// Waiting is a page of those that wait: the queue in its order, then those
	// that are not due yet by when they will be.
	Waiting []Backup
	// Next is the After of the page that follows; empty on the last one.
	Next       string
	ComputedAt time.Time
	// Version moves whenever an event of the cluster is written.
	Version int64
}

// QueueOptions choose a page of a cluster's queue.
type QueueOptions struct {
	Cluster string
	// Limit is the number of waiting backups of a page, from 1 to 1000.
	Limit int
	// After is the Next of the page before; empty for the first one.
	After string
}

// Request asks for a backup, as POST /backups does.
type Request struct {
	Cluster     string
	Name        string
	Labels      map[string]string
	Annotations map[string]string
	Spec        Spec
	// Priority is in minutes, from -MaxPriority to MaxPriority.
	Priority int
	// NotBefore and StartDeadline are nil where there is none.
	NotBefore, StartDeadline *time.Time
}

// Edit is what changes of a waiting backup; nil fields stay as they are.
type Edit struct {
	Priority *int
	// NotBefore and StartDeadline are taken away by the zero time.
	NotBefore, StartDeadline *time.Time
	// By says who, for the record; empty where nobody knows.
	By string
}

// Run is one admitted attempt: a worker's right to take the backup.
type Run struct {
	// Seq is the row's number in the database.
	Seq     int64
	ID      uuid.UUID
	Cluster string
	Name    string
	Attempt int
	// Fence is this attempt's number: every write names it, and a greater one
	// elsewhere means that the right is lost.
	Fence       int64
	Slot        int
	Labels      map[string]string
	Annotations map[string]string
	Spec        Spec
	// ItemBlockWorkerCount is how many workers its pool has.
	ItemBlockWorkerCount int
	CreatedAt            time.Time
	EnqueuedAt           time.Time
	ReadyAt              time.Time
	ExpiresAt            time.Time
	Contents             Contents
}

// Contents are the namespaces of a run, frozen when it was admitted.
type Contents struct {
	// Names are the namespaces to back up.
	Names []string
	// Missing are literals of the spec that did not exist.
	Missing []string
	// Excluded are namespaces that the exclude label keeps out.
	Excluded []string
}

// Outcome is how a run ended.
type Outcome struct {
	// Phase is a terminal one.
	Phase Phase
	// Reason is the phase where it is empty.
	Reason, Message  string
	Warnings, Errors int
	ValidationErrors []string
	// FailureReason is set for Failed only, as in Velero's status.
	FailureReason string
	Progress      Progress
	// Artifacts and Kinds describe what was written; nil where nothing was.
	Artifacts []Artifact
	Kinds     map[string]int
}

// Artifact is one object of a backup in the store.
type Artifact struct {
	// Name tells what it is ("tar.gz", "logs.gz", …), Object what it is called.
	Name   string `json:"name"`
	Object string `json:"object"`
	// Size is in bytes, SHA256 in hexadecimal digits.
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// StorageLocation is where a cluster's backups go.
type StorageLocation struct {
	Cluster string
	Name    string
	// URL names the bucket, as gocloud.dev/blob reads it (file:///…, s3://…).
	URL string
	// Prefix is the folder inside the bucket, without slashes at its ends.
	Prefix   string
	ReadOnly bool
	// Available is false while workers cannot reach it; Message says why.
	Available bool
	Message   string
}

// ListOptions choose backups of a list, newest first.
type ListOptions struct {
	// Cluster limits the list to one cluster; empty means all.
	Cluster string
	// Phases limits the list to these; empty means all.
	Phases []Phase
	// Limit is the number of backups of a page, from 1 to 200.
	Limit int
	// After is the Next of the page before; empty for the first one.
	After string
}

// List is one page of backups.
type List struct {
	Items []Backup
	// Next is the After of the page that follows; empty on the last one.
	Next string
}
