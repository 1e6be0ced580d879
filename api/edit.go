package api

import (
	"context"
	"time"

	"github.com/oapi-codegen/nullable"

	"github.com/berth-backup/berth"
)

// EditBackup changes a waiting backup. An empty patch only reads it.
func (s server) EditBackup(ctx context.Context, request EditBackupRequestObject) (EditBackupResponseObject, error) {
	var backup berth.Backup
	var err error
	if edit := request.edit(); edit == (berth.Edit{}) {
		backup, err = s.store.Backup(ctx, request.ID)
	} else {
		backup, err = s.store.Edit(ctx, request.ID, edit)
	}
	if err != nil {
		return nil, err
	}
	return EditBackup200JSONResponse(backupOf(backup)), nil
}

// edit is what is asked for in the domain's words. Whatever the patch was called,
// it is read as application/json.
func (o EditBackupRequestObject) edit() berth.Edit {
	return berth.Edit{
		Priority: o.JSONBody.Priority, NotBefore: timeOf(o.JSONBody.NotBefore), StartDeadline: timeOf(o.JSONBody.StartDeadline),
	}
}

// problems are what is wrong with the patch. A time that is the zero time is none
// that takes another away, which null does.
func (o EditBackupRequestObject) problems() []berth.FieldError {
	problems := o.edit().Validate()
	for _, field := range []struct {
		pointer string
		at      nullable.Nullable[time.Time]
	}{{"/notBefore", o.JSONBody.NotBefore}, {"/startDeadline", o.JSONBody.StartDeadline}} {
		if field.at.IsSpecified() && !field.at.IsNull() && field.at.GetOrEmpty().IsZero() {
			problems = append(problems, berth.TimeProblems(field.pointer, new(time.Time))...)
		}
	}
	return problems
}

// timeOf is a time of a patch: nil where it is left out, the zero time for null.
func timeOf(at nullable.Nullable[time.Time]) *time.Time {
	if !at.IsSpecified() {
		return nil
	}
	return new(at.GetOrEmpty().UTC())
}
