package backup

import (
	"context"
	"io"
)

// Store is where archives go: a folder of objects per backup. Its two words
// for what can be wrong are io/fs's: fs.ErrExist and fs.ErrNotExist.
type Store interface {
	// Put creates a small object, or answers fs.ErrExist.
	Put(ctx context.Context, backup, object string, body []byte) error
	// Create begins an object that becomes visible, whole, when Close returns
	// nil; Close answers fs.ErrExist where the name is taken by then. Ending
	// ctx before Close aborts. Close is called in any case.
	Create(ctx context.Context, backup, object string) (io.WriteCloser, error)
	// Read opens an object, or answers fs.ErrNotExist.
	Read(ctx context.Context, backup, object string) (io.ReadCloser, error)
	// Size is an object's length in bytes; fs.ErrNotExist where there is none.
	Size(ctx context.Context, backup, object string) (int64, error)
	// List names the objects of a backup; none where there is no folder.
	List(ctx context.Context, backup string) ([]string, error)
	// Delete removes an object; one that is not there counts as removed.
	Delete(ctx context.Context, backup, object string) error
	// Sweep removes what writers that were killed left of a backup.
	Sweep(ctx context.Context, backup string) error
}
