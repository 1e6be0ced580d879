package api_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/api"
	"github.com/berth-backup/berth/db/dbtest"
)

// real is the API on a database of the test's own, with a default location.
func real(t *testing.T) (url string) {
	t.Helper()
	d := dbtest.New(t)
	location := berth.StorageLocation{Cluster: berth.DefaultCluster, Name: berth.DefaultStorageLocation, URL: "file:///data"}
	if err := d.SetStorageLocation(t.Context(), location); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(api.New(d.Store, api.Options{Logger: slog.New(slog.DiscardHandler)}))
	t.Cleanup(server.Close)
	return server.URL
}

// What shape, meaning and rows complain of comes in one answer.
func TestRowsComplainWithTheRest(t *testing.T) {
	t.Parallel()
	url := real(t)
	for name, test := range map[string]struct {
		body string
		want []string
	}{
		"rows alone":            {`{"cluster": "nowhere", "spec": {}}`, []string{"/cluster"}},
		"with meaning":          {`{"name": "No", "spec": {"storageLocation": "nowhere"}}`, []string{"/name", "/spec/storageLocation"}},
		"with shape":            {`{"colour": 1, "spec": {"storageLocation": "nowhere", "ttl": "-1h"}}`, []string{"/colour", "/spec/storageLocation", "/spec/ttl"}},
		"twice about one field": {`{"cluster": "No", "spec": {}}`, []string{"/cluster"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer, body := post(t, http.DefaultClient, url, test.body)
			if answer.StatusCode != http.StatusUnprocessableEntity {
				t.Fatalf("answered %d: %s", answer.StatusCode, body)
			}
			var pointers []string
			for _, e := range problemOf(t, answer, body).Errors {
				pointers = append(pointers, *e.Pointer)
			}
			slices.Sort(pointers)
			if diff := cmp.Diff(test.want, pointers); diff != "" {
				t.Errorf("pointers (-want +got):\n%s\n%s", diff, body)
			}
		})
	}
}

// What only rows know has its status on the real store too.
func TestRealStoreRefusals(t *testing.T) {
	t.Parallel()
	url := real(t)
	created, body := post(t, http.DefaultClient, url, `{"name": "taken", "spec": {}}`)
	if created.StatusCode != http.StatusCreated {
		t.Fatalf("answered %d: %s", created.StatusCode, body)
	}
	for _, test := range []struct {
		method, path, body string
		status             int
		code               berth.Code
	}{
		{"POST", "/backups", `{"name": "taken", "spec": {}}`, http.StatusConflict, berth.CodeNameTaken},
		{"GET", "/backups/" + missingID, "", http.StatusNotFound, berth.CodeNotFound},
		{"GET", "/queue?cluster=nowhere", "", http.StatusNotFound, berth.CodeNotFound},
		{"GET", "/backups?cursor=nothing", "", http.StatusBadRequest, berth.CodeMalformedRequest},
	} {
		answer, body := send(t, http.DefaultClient, test.method, url+test.path, test.body, "Content-Type", "application/json")
		problem := problemOf(t, answer, body)
		if answer.StatusCode != test.status || problem.Code != test.code {
			t.Errorf("%s %s: %d %s, want %d %s", test.method, test.path, answer.StatusCode, problem.Code, test.status, test.code)
		}
		if test.code == berth.CodeNameTaken && (problem.ExistingID == nil || created.Header.Get("Location") != "/backups/"+problem.ExistingID.String()) {
			t.Errorf("the backup that has the name is not told: %s", body)
		}
	}
}
