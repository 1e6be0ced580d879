package objectstore

import (
	"errors"
	"fmt"
	"io/fs"

	"gocloud.dev/gcerrors"
)

// The closed vocabulary of a store. Both are the standard library's own, so
// that whoever uses a store through an interface needs nothing of this package.
// Every other failure is wrapped as it came.
var (
	// ErrExists says that an object of that name is there already.
	ErrExists = fs.ErrExist
	// ErrNotFound says that there is no such object.
	ErrNotFound = fs.ErrNotExist
)

// errTimeout is the cause of a request that the store did not answer in time.
var errTimeout = errors.New("the object store did not answer in time")

// wrap says what was being done to which key, and translates what the
// vocabulary has a word for. It keeps nil.
func wrap(err error, doing, key string) error {
	if err == nil {
		return nil
	}
	switch gcerrors.Code(err) {
	case gcerrors.NotFound:
		return fmt.Errorf("%s %s: %w", doing, key, ErrNotFound)
	case gcerrors.FailedPrecondition, gcerrors.AlreadyExists:
		return fmt.Errorf("%s %s: %w", doing, key, ErrExists)
	}
	return fmt.Errorf("%s %s: %w", doing, key, err)
}
