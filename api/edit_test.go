package api_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/berth-backup/berth"
)

func TestEditHandsThePatchToTheStore(t *testing.T) {
	t.Parallel()
	evening := time.Date(2026, 7, 1, 20, 0, 0, 0, time.UTC)
	for body, want := range map[string]berth.Edit{
		`{"priority":-60}`:                          {Priority: new(-60)},
		`{"priority":6e1}`:                          {Priority: new(60)},
		`{"notBefore":"2026-07-01T22:00:00+02:00"}`: {NotBefore: &evening},
		`{"notBefore":null,"startDeadline":null}`:   {NotBefore: new(time.Time{}), StartDeadline: new(time.Time{})},
		`{"notBefore":null,"priority":0}`:           {NotBefore: new(time.Time{}), Priority: new(0)},
	} {
		for _, contentType := range []string{"application/merge-patch+json", "application/json"} {
			var got berth.Edit
			url, client := serve(t, store{edit: func(id uuid.UUID, e berth.Edit) (berth.Backup, error) {
				if id != queued.ID {
					t.Errorf("the store is asked to edit %s", id)
				}
				got = e
				return queued, nil
			}})
			answer, received := editBackup.send(t, client, url, body, "Content-Type", contentType)
			if diff := cmp.Diff(want, got); answer.StatusCode != 200 || diff != "" {
				t.Errorf("%s as %s: %d %s; edit (-want +got):\n%s", body, contentType, answer.StatusCode, received, diff)
			}
		}
	}
}

// An empty patch changes nothing, and so it can be of any backup.
func TestAnEmptyPatchOnlyReads(t *testing.T) {
	t.Parallel()
	reads := store{backup: working().backup} // it panics where it is asked to edit
	url, client := serve(t, reads)
	for id, status := range map[string]int{queued.ID.String(): 200, failed.ID.String(): 200, missingID: 404} {
		if answer, body := send(t, client, "PATCH", url+"/backups/"+id, `{}`); answer.StatusCode != status {
			t.Errorf("got %d, want %d: %s", answer.StatusCode, status, body)
		}
	}
}
