package api_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/berth-backup/berth"
)

func TestADryRunStoresNothingAndIsShownWhole(t *testing.T) {
	t.Parallel()
	type object = map[string]any
	type array = []any
	predicts := store{dryRun: working().dryRun} // it panics where it is asked to enqueue
	url, client := serve(t, predicts)
	answer, body := dryRun.send(t, client, url, `{"spec":{"includedNamespaces":["shop"]}}`)
	var got object
	if err := json.Unmarshal(body, &got); err != nil || answer.StatusCode != http.StatusOK || answer.Header.Get("Location") != "" {
		t.Fatalf("%d %v: %s", answer.StatusCode, err, body)
	}
	want := object{
		"name": nil, "cluster": "default",
		"spec":       object{"includedNamespaces": array{"shop"}, "storageLocation": "default", "ttl": "720h0m0s"},
		"namespaces": object{"all": false, "names": array{"shop"}, "except": array{}, "frozen": nil, "missing": nil, "excluded": nil},
		"starts":     false,
		"queue": object{
			"position": 2., "overlappingAhead": 1.,
			"blockedBy": array{
				object{"reason": "QueuePaused", "backup": nil, "namespaces": array{}, "setting": "paused by ops: upgrade", "since": "2026-07-01T10:00:00Z"},
				object{"reason": "RunningOverlap", "backup": object{"id": running.ID.String(), "name": "nightly"}, "namespaces": array{"shop"}, "setting": nil, "since": nil},
				object{"reason": "NoFreeSlot", "backup": nil, "namespaces": array{}, "setting": "concurrentBackups=2", "since": nil},
			},
			"eta": object{"startP50": "2026-07-01T20:00:00Z", "startP90": "2026-07-02T02:00:00Z", "basis": "schedule", "samples": 14.},
		},
		"computedAt": "2026-07-01T10:00:00Z",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("prediction (-want +got):\n%s", diff)
	}
	stores := store{enqueue: working().enqueue} // and this one where it is asked to predict
	url, client = serve(t, stores)
	if answer, body := send(t, client, http.MethodPost, url+"/backups?dryRun=false", `{"spec":{}}`); answer.StatusCode != http.StatusCreated {
		t.Errorf("dryRun=false: %d %s", answer.StatusCode, body)
	}
}

func TestSimulateHandsItsSuppositionsToTheStore(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]berth.SimulateRequest{
		``:   {Cluster: "default"},
		`{}`: {Cluster: "default"},
		`{"cluster":null,"concurrentBackups":null,"add":null,"cancel":null}`: {Cluster: "default"},
		`{"cluster":"east","concurrentBackups":3,"add":[{"spec":{}},{"cluster":"east","name":"b","priority":5,"spec":{"includedNamespaces":["b"]}}],"cancel":["` + missingID + `"]}`: {
			Cluster: "east", ConcurrentBackups: new(3), Cancel: []uuid.UUID{uuid.MustParse(missingID)},
			Add: []berth.Request{{Cluster: "east"}, {Cluster: "east", Name: "b", Priority: 5, Spec: berth.Spec{IncludedNamespaces: []string{"b"}}}},
		},
	} {
		var got berth.SimulateRequest
		url, client := serve(t, store{simulate: func(r berth.SimulateRequest) (berth.Forecast, error) {
			got = r
			return berth.Forecast{}, nil
		}})
		answer, received := simulateQueue.send(t, client, url, body)
		if diff := cmp.Diff(want, got); answer.StatusCode != 200 || diff != "" {
			t.Errorf("%s: %d %s; request (-want +got):\n%s", body, answer.StatusCode, received, diff)
		}
	}
}

func TestForecastsAreShownWhole(t *testing.T) {
	t.Parallel()
	type object = map[string]any
	type array = []any
	url, client := serve(t, working())
	_, body := simulateQueue.send(t, client, url, `{"add":[{"spec":{}}]}`)
	var got object
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	start := object{"startP50": "2026-07-01T20:00:00Z", "startP90": "2026-07-02T02:00:00Z", "basis": "schedule", "samples": 14.}
	want := object{
		"cluster": "default", "concurrentBackups": 2., "computedAt": "2026-07-01T10:00:00Z", "truncated": false,
		"waiting": array{
			object{
				"backup": object{"id": queued.ID.String(), "name": "shop"}, "added": false, "position": 1., "starts": false,
				"blockedBy": object{"reason": "QueuePaused", "backup": nil, "namespaces": array{}, "setting": "paused by ops: upgrade"},
				"eta":       start, "now": start,
			},
			object{
				"backup": object{"id": nil, "name": nil}, "added": true, "position": 2., "starts": false,
				"blockedBy": object{"reason": "EarlierQueuedOverlap", "backup": object{"id": nil, "name": nil}, "namespaces": array{"shop"}, "setting": nil},
				"eta":       object{"startP50": nil, "startP90": nil, "basis": "no history", "samples": 0.}, "now": nil,
			},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("forecast (-want +got):\n%s", diff)
	}
}
