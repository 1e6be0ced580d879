package berth

import (
	"time"

	"github.com/google/uuid"
)

// Explained is why one backup waits, in full, at one instant.
type Explained struct {
	// Backup is what reading it shows at that instant.
	Backup     Backup
	ComputedAt time.Time
	// Blockers are every reason that holds, settings first, then each active
	// backup ahead that overlaps in the order of the queue: all of those have to
	// end before it can start. Empty for one that does not wait.
	Blockers []Blocker
	// Chain leads from the witness to the one that has to end or move first.
	Chain []Link
}

// Prediction is what would become of a request that is only thought of.
type Prediction struct {
	Cluster, Name string
	// Spec is the request's with its defaults.
	Spec       Spec
	Namespaces Namespaces
	// Starts is true where the next dequeue would start it.
	Starts bool
	// Queue is its place; BlockedBy has everything that would be in its way.
	Queue      QueueEntry
	ComputedAt time.Time
}

// SimulateRequest asks how a cluster's queue would go on after a change.
type SimulateRequest struct {
	Cluster string
	// ConcurrentBackups is another limit; nil: the cluster's.
	ConcurrentBackups *int
	// Add are backups that would be asked for now.
	Add []Request
	// Cancel are waiting or running backups that would be gone.
	Cancel []uuid.UUID
}

// Forecast is how a cluster's queue would go on after a change.
type Forecast struct {
	Cluster           string
	ConcurrentBackups int
	ComputedAt        time.Time
	// Waiting are the backups that would wait, in the order of the queue: the
	// first MaxForecast of them.
	Waiting []Forecasted
	// Truncated says that more would wait than Waiting has.
	Truncated bool
}

// MaxForecast is how many waiting backups a forecast tells of.
const MaxForecast = 2000

// Forecasted is one waiting backup of a forecast.
type Forecasted struct {
	// Backup has no id where it is one that would be added.
	Backup BackupRef
	Added  bool
	// Position counts from 1; 0 for one that is not due.
	Position int
	// Starts is true where the next dequeue would start it.
	Starts    bool
	BlockedBy Blocker
	// ETA is when it would start, Now when it starts without the change; nil for
	// one that would be added.
	ETA ETA
	Now *ETA
}
