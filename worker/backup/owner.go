package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/google/uuid"

	"github.com/berth-backup/berth"
)

// owner is the content of <name>-berth.json: whose the folder is. It is the
// first object of an attempt and the last one that is removed of it, so that no
// object of a backup stands there without it.
type owner struct {
	UID     uuid.UUID `json:"uid"`
	Attempt int       `json:"attempt"`
	Fence   int64     `json:"fence"`
}

// maxRecord bounds what is read of a small object.
const maxRecord = 4 << 20

// claim makes the folder this attempt's, after removing what an attempt of the
// same backup with a lower fence left. A folder of another backup is refused,
// one of a higher fence means that the lease is lost.
func (f folder) claim(ctx context.Context) (Artefact, error) {
	body, err := json.Marshal(owner{f.run.ID, f.run.Attempt, f.run.Fence})
	if err != nil {
		return Artefact{}, fmt.Errorf("claim the backup's folder: %w", err)
	}
	const tries = 4
	for range tries {
		a, err := f.create(ctx, f.ownerObject(), func(w io.Writer) error { _, err := w.Write(body); return err })
		a.Name = ArtefactOwner
		if err == nil {
			return a, f.refuseStrangers(ctx)
		}
		if !errors.Is(err, fs.ErrExist) {
			return Artefact{}, err
		}
		was, err := f.readOwner(ctx)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // removed in between
		case err != nil:
			return Artefact{}, err
		}
		switch comparison, err := f.compare(was); {
		case err != nil:
			return Artefact{}, err
		case comparison == 0:
			// A write whose answer was lost, or this attempt once more.
			return a, f.removeAll(ctx, f.ownerObject())
		}
		if err := f.removeAll(ctx, ""); err != nil {
			return Artefact{}, err
		}
	}
	return Artefact{}, errors.New("claim the backup's folder: others keep claiming it")
}

func (f folder) ownerObject() string { return ObjectName(f.run.Name, ArtefactOwner) }

// refuseStrangers gives a folder back that held objects without an owner
// before this attempt claimed it: another program's.
func (f folder) refuseStrangers(ctx context.Context) error {
	names, err := f.store.List(ctx, f.run.Name)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name != f.ownerObject() {
			return errors.Join(f.nameTaken("it holds "+name+", which Berth did not write"),
				f.store.Delete(ctx, f.run.Name, f.ownerObject()))
		}
	}
	return f.store.Sweep(ctx, f.run.Name)
}

func (f folder) nameTaken(why string) error {
	return &Failure{Reason: ReasonNameTaken, Message: fmt.Sprintf("the store's folder of the name %s belongs to another backup: %s", f.run.Name, why)}
}

// compare says how the fence of an owner of this folder stands to this
// attempt's: 0 for its own, -1 for an earlier one. A later one and another
// backup's are errors.
func (f folder) compare(o owner) (int, error) {
	switch {
	case o.UID != f.run.ID:
		return 0, f.nameTaken("its id is " + o.UID.String())
	case o.Fence > f.run.Fence:
		return 0, fmt.Errorf("fence %d of backup %s: %w", f.run.Fence, f.run.Name, berth.ErrLeaseLost)
	case o.Fence < f.run.Fence:
		return -1, nil
	}
	return 0, nil
}

// checkOwner fails unless the folder is still this attempt's.
func (f folder) checkOwner(ctx context.Context) error {
	o, err := f.readOwner(ctx)
	if err != nil {
		return fmt.Errorf("look whose folder it is: %w", err)
	}
	comparison, err := f.compare(o)
	if err == nil && comparison != 0 {
		err = fmt.Errorf("an earlier attempt, of fence %d, took the folder of backup %s back", o.Fence, f.run.Name)
	}
	return err
}

func (f folder) readOwner(ctx context.Context) (owner, error) {
	body, err := f.readSmall(ctx, f.ownerObject())
	if err != nil {
		return owner{}, err
	}
	var o owner
	if err := json.Unmarshal(body, &o); err != nil {
		return owner{}, f.nameTaken(f.ownerObject() + " cannot be read: " + err.Error())
	}
	return o, nil
}

func (f folder) readSmall(ctx context.Context, object string) ([]byte, error) {
	r, err := f.store.Read(ctx, f.run.Name, object)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(r, maxRecord))
	if err := errors.Join(err, r.Close()); err != nil {
		return nil, fmt.Errorf("read %s: %w", object, err)
	}
	return body, nil
}

// removeAll removes the folder's objects, but for the one named keep: first
// the one that makes the backup exist, last the one that says whose it is.
func (f folder) removeAll(ctx context.Context, keep string) error {
	names, err := f.store.List(ctx, f.run.Name)
	if err != nil {
		return err
	}
	if err := f.store.Delete(ctx, f.run.Name, recordObject); err != nil {
		return err
	}
	for _, name := range names {
		if name == recordObject || name == f.ownerObject() {
			continue
		}
		if err := f.store.Delete(ctx, f.run.Name, name); err != nil {
			return err
		}
	}
	if err := f.store.Sweep(ctx, f.run.Name); err != nil {
		return err
	}
	if keep == f.ownerObject() {
		return nil
	}
	return f.store.Delete(ctx, f.run.Name, f.ownerObject())
}
