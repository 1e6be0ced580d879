package backup

import (
	"fmt"
	"runtime/debug"

	"github.com/berth-backup/berth"
)

// Reasons of a Failure.
const (
	// ReasonInvalidSpec: the spec cannot be followed.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonNothingLeft: of what the spec names nothing exists.
	ReasonNothingLeft = "NamespacesMissing"
	// ReasonDiscovery: the API server refuses to say what it has.
	ReasonDiscovery = "DiscoveryFailed"
	// ReasonNameTaken: the store holds something else under this name.
	ReasonNameTaken = "NameTakenInStore"
	// ReasonPanic: a fault in Berth itself.
	ReasonPanic = "Panic"
)

// Failure is an error that another attempt would meet again: the backup ends
// as Failed. Every other error of Take and Publish is one of circumstances: the
// store or the API server away, the lease lost, the context ended.
type Failure struct {
	// Reason is one of the Reason constants, Message a sentence; with
	// ReasonPanic the goroutine's stack follows it.
	Reason, Message string
}

func (f *Failure) Error() string { return f.Message }

// Outcome is how the run ended.
func (f *Failure) Outcome() berth.Outcome {
	return berth.Outcome{Phase: berth.PhaseFailed, Reason: f.Reason, Message: f.Message, FailureReason: f.Message}
}

// guarded runs f and turns a panic into a Failure, so that a fault in one
// backup ends that backup and nothing else.
func guarded(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &Failure{Reason: ReasonPanic, Message: fmt.Sprintf("panic: %v\n\n%s", v, debug.Stack())}
		}
	}()
	return f()
}
