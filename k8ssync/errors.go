package k8ssync

import (
	"context"
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

var (
	// ErrNameTaken says that an object which is not this backup's has its name.
	// It is never overwritten: it has to be deleted or renamed by its owner.
	ErrNameTaken = errors.New("another Backup object has this name: delete it, or leave this backup without an object")
	// ErrRejected says that the API server does not take the values, such as a
	// phase that an older definition of the Backup resource does not know.
	ErrRejected = errors.New("the API server rejects this backup's object")
	// ErrNoDefinition says that the cluster does not know Backup objects.
	ErrNoDefinition = errors.New("the cluster has no resource backups.velero.io: install Velero's custom resource definitions, or apply deploy/crd/backups.velero.io.yaml")
	// ErrNoNamespace says that the Kubernetes namespace for Backup objects is missing.
	ErrNoNamespace = errors.New("the namespace for Backup objects does not exist: create it, or name another one")

	// errBusy says that an object changed each time that it was about to be written.
	errBusy = errors.New("the object kept changing")
	// errNoTimeLeft says that the lease ends before the next write is allowed.
	errNoTimeLeft = errors.New("no time left in the mirror's lease")
)

// storeError is a failure of the rows' side.
type storeError struct{ error }

func (e *storeError) Unwrap() error { return e.error }

// concernsAll says whether the next object would meet the same error.
func concernsAll(err error) bool {
	if _, ok := errors.AsType[*storeError](err); ok {
		return true
	}
	for _, all := range []error{ErrNoDefinition, ErrNoNamespace, errNoTimeLeft, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, all) {
			return true
		}
	}
	for _, own := range []error{ErrNameTaken, ErrRejected, errBusy} {
		if errors.Is(err, own) {
			return false
		}
	}
	code := answerCode(err)
	if code == 0 {
		// Neither ours nor an answer: the server was not reached.
		return true
	}
	switch code {
	case http.StatusUnauthorized, http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return true
	}
	return false
}

// isServerError says whether the API server failed at what it was asked.
func isServerError(err error) bool { return answerCode(err) >= http.StatusInternalServerError }

// answerCode is the HTTP status of the API server's answer; 0 where there was none.
func answerCode(err error) int32 {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return 0
	}
	return answer.Status().Code
}
