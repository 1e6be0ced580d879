package berth

import "slices"

// Phase is where a backup stands in its life, in Velero's spelling
// (velero.io/v1 BackupPhase). Canceled is Berth's own: Velero's CRD does not
// know it, so that the object in the cluster shows Failed with the reason.
type Phase string

const (
	// PhaseNew waits without a place in the queue: it is not due yet.
	PhaseNew Phase = "New"
	// PhaseQueued has a place in the queue and claims its namespaces.
	PhaseQueued Phase = "Queued"
	// PhaseReadyToStart is admitted: it has a slot, its namespaces, a lease and a fence.
	PhaseReadyToStart Phase = "ReadyToStart"
	// PhaseInProgress is validated against the cluster and being taken.
	PhaseInProgress Phase = "InProgress"
	// PhaseFinalizing has all its items; its artefacts are being closed.
	PhaseFinalizing Phase = "Finalizing"
	// PhaseFinalizingPartiallyFailed is Finalizing with at least one error.
	PhaseFinalizingPartiallyFailed Phase = "FinalizingPartiallyFailed"
	// PhaseCompleted ended without an error.
	PhaseCompleted Phase = "Completed"
	// PhasePartiallyFailed ended with an archive and at least one error.
	PhasePartiallyFailed Phase = "PartiallyFailed"
	// PhaseFailed ended without a usable archive.
	PhaseFailed Phase = "Failed"
	// PhaseFailedValidation was refused by what only the cluster knows.
	PhaseFailedValidation Phase = "FailedValidation"
	// PhaseCanceled was ended by a person.
	PhaseCanceled Phase = "Canceled"
	// PhaseDeleting is being removed, artefacts and row.
	PhaseDeleting Phase = "Deleting"
)

var (
	runningPhases  = []Phase{PhaseReadyToStart, PhaseInProgress, PhaseFinalizing, PhaseFinalizingPartiallyFailed}
	terminalPhases = []Phase{PhaseCompleted, PhasePartiallyFailed, PhaseFailed, PhaseFailedValidation, PhaseCanceled}
)

// transitions draws every arrow of a backup's life. The database refuses each
// that is not drawn here (migrations, function backups_guard); a test holds
// the two together.
var transitions = map[Phase][]Phase{
	"":                             {PhaseNew, PhaseQueued},
	PhaseNew:                       {PhaseQueued, PhaseFailed, PhaseCanceled},
	PhaseQueued:                    {PhaseNew, PhaseReadyToStart, PhaseFailed, PhaseCanceled},
	PhaseReadyToStart:              {PhaseInProgress, PhaseFailedValidation, PhaseQueued, PhaseNew, PhaseFailed, PhaseCanceled},
	PhaseInProgress:                {PhaseFinalizing, PhaseFinalizingPartiallyFailed, PhaseQueued, PhaseNew, PhaseFailed, PhaseCanceled},
	PhaseFinalizing:                {PhaseCompleted, PhaseQueued, PhaseNew, PhaseFailed, PhaseCanceled},
	PhaseFinalizingPartiallyFailed: {PhasePartiallyFailed, PhaseQueued, PhaseNew, PhaseFailed, PhaseCanceled},
	PhaseCompleted:                 {PhaseDeleting},
	PhasePartiallyFailed:           {PhaseQueued, PhaseDeleting},
	PhaseFailed:                    {PhaseQueued, PhaseDeleting},
	PhaseFailedValidation:          {PhaseDeleting},
	PhaseCanceled:                  {PhaseQueued, PhaseDeleting},
}

// Phases lists every phase that a row can have, in the order of a life.
func Phases() []Phase {
	return []Phase{
		PhaseNew, PhaseQueued, PhaseReadyToStart, PhaseInProgress,
		PhaseFinalizing, PhaseFinalizingPartiallyFailed,
		PhaseCompleted, PhasePartiallyFailed, PhaseFailed, PhaseFailedValidation, PhaseCanceled,
		PhaseDeleting,
	}
}

// Valid says whether p is a phase that a row can have.
func (p Phase) Valid() bool { return slices.Contains(Phases(), p) }

// Running phases hold a slot and their namespaces.
func (p Phase) Running() bool { return slices.Contains(runningPhases, p) }

// Waiting phases have not been admitted in this attempt.
func (p Phase) Waiting() bool { return p == PhaseNew || p == PhaseQueued }

// Terminal phases are written once per attempt; only retry and deletion leave them.
func (p Phase) Terminal() bool { return slices.Contains(terminalPhases, p) }

// CanBecome says whether the arrow from p to next is drawn. The empty phase
// stands for a row that does not exist yet.
func (p Phase) CanBecome(next Phase) bool { return slices.Contains(transitions[p], next) }
