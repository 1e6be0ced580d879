package backup

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"strconv"

	"github.com/berth-backup/berth"
)

// adopt looks for what a former attempt published before it died. It returns
// nil where there is nothing to adopt; a record that is not whole is none. A
// record of another backup is refused.
func (f folder) adopt(ctx context.Context) (*Taken, error) {
	body, err := f.readSmall(ctx, recordObject)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	record, err := f.recordOf(body)
	if err != nil {
		return nil, err
	}
	artefacts, whole, err := f.verify(ctx, record)
	if err != nil {
		return nil, err
	}
	outcome, ended := outcomeOf(record.Status)
	if !whole || !ended {
		return nil, f.removeOrphans(ctx)
	}
	list, err := f.readResourceList(ctx)
	if err != nil {
		return nil, err
	}
	outcome.Artifacts, outcome.Kinds = artefacts, list.counts()
	return &Taken{
		Outcome: outcome, Adopted: true, Artefacts: artefacts,
		folder: f, record: Artefact{Object: recordObject, Size: int64(len(body))},
	}, nil
}

// removeOrphans clears a folder whose record is this backup's, but which lacks
// the object that says so to claim. With that object claim decides.
func (f folder) removeOrphans(ctx context.Context) error {
	if _, err := f.readOwner(ctx); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return f.removeAll(ctx, "")
}

// recordOf reads a velero-backup.json of this backup, by an attempt that is no
// later than this one.
func (f folder) recordOf(body []byte) (berth.VeleroBackup, error) {
	var record berth.VeleroBackup
	if err := json.Unmarshal(body, &record); err != nil {
		return record, f.nameTaken(recordObject + " cannot be read: " + err.Error())
	}
	if id := record.Metadata.Annotations[berth.AnnotationID]; id != f.run.ID.String() {
		return record, f.nameTaken(recordObject + " has the id " + strconv.Quote(id))
	}
	fence, ok := fenceOf(record)
	if !ok {
		return record, nil // verify takes it for what it is: not whole
	}
	_, err := f.compare(owner{UID: f.run.ID, Fence: fence})
	return record, err
}

func fenceOf(record berth.VeleroBackup) (int64, bool) {
	fence, err := strconv.ParseInt(record.Metadata.Annotations[berth.AnnotationFence], 10, 64)
	return fence, err == nil
}

// verify says whether a record names its attempt, and every artefact is there
// with the checksum that the record gives.
func (f folder) verify(ctx context.Context, record berth.VeleroBackup) ([]Artefact, bool, error) {
	if _, ok := fenceOf(record); !ok {
		return nil, false, nil
	}
	var all []Artefact
	for _, name := range Artefacts() {
		a := Artefact{Name: name, Object: ObjectName(f.run.Name, name), SHA256: record.Metadata.Annotations[berth.AnnotationSHA256Prefix+name]}
		if a.SHA256 == "" {
			return nil, false, nil
		}
		same, err := f.holds(ctx, a)
		if err != nil || !same {
			return nil, false, err
		}
		if a.Size, err = f.store.Size(ctx, f.run.Name, a.Object); err != nil {
			return nil, false, err
		}
		all = append(all, a)
	}
	return all, true, nil
}

// outcomeOf reads a recorded outcome back; false where none is recorded that
// an archive can have.
func outcomeOf(s berth.VeleroStatus) (berth.Outcome, bool) {
	o := berth.Outcome{Phase: s.Phase, Warnings: s.Warnings, Errors: s.Errors}
	if s.Progress != nil {
		o.Progress = berth.Progress{ItemsBackedUp: s.Progress.ItemsBackedUp, TotalItems: s.Progress.TotalItems}
	}
	if s.HookStatus != nil {
		o.Progress.HooksAttempted, o.Progress.HooksFailed = s.HookStatus.HooksAttempted, s.HookStatus.HooksFailed
	}
	return o, s.Phase == berth.PhaseCompleted || s.Phase == berth.PhasePartiallyFailed
}
