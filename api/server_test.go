package api_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-backup/berth"
)

func TestCreateHandsTheRequestToTheStore(t *testing.T) {
	t.Parallel()
	week := metav1.Duration{Duration: 168 * time.Hour}
	for body, want := range map[string]berth.Request{
		`{"spec":{}}`: {Cluster: "default"},
		`{"cluster":null,"name":null,"labels":null,"annotations":null,"spec":{"ttl":null,"metadata":null,"labelSelector":null,"includedNamespaces":null,"hooks":null}}`: {Cluster: "default"},
		`{"priority":-10080,"notBefore":"2026-07-01T22:00:00+02:00","startDeadline":"2026-07-02T04:00:00.5Z","spec":{}}`: {
			Cluster: "default", Priority: -10080,
			NotBefore:     new(time.Date(2026, 7, 1, 20, 0, 0, 0, time.UTC)),
			StartDeadline: new(time.Date(2026, 7, 2, 4, 0, 0, 500_000_000, time.UTC)),
		},
		`{"priority":6.0e1,"notBefore":null,"startDeadline":null,"spec":{}}`: {Cluster: "default", Priority: 60},
		`{"cluster":"east","name":"shop.1","labels":{"a/b":""},"annotations":{"c":"\u00e4 <&>"},"spec":{"includedNamespaces":["shop-*",""],"ttl":"168h","includeClusterResources":false}}`: {
			Cluster: "east", Name: "shop.1", Labels: map[string]string{"a/b": ""}, Annotations: map[string]string{"c": "ä <&>"},
			Spec: berth.Spec{IncludedNamespaces: []string{"shop-*", ""}, TTL: week, IncludeClusterResources: new(false)},
		},
	} {
		var got berth.Request
		url, client := serve(t, store{enqueue: func(r berth.Request) (berth.Backup, error) {
			got = r
			return queued, nil
		}})
		answer, received := post(t, client, url, body)
		if answer.StatusCode != http.StatusCreated || answer.Header.Get("Location") != "/backups/"+queued.ID.String() {
			t.Errorf("%s: got %d, Location %q: %s", body, answer.StatusCode, answer.Header.Get("Location"), received)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: request (-want +got):\n%s", body, diff)
		}
	}
}

func TestListHandsItsFiltersToTheStore(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]berth.ListOptions{
		"":                                 {Limit: 50},
		"?limit=1":                         {Limit: 1},
		"?limit=200":                       {Limit: 200},
		"?limit=201":                       {Limit: 200},
		"?cluster=east&cursor=abc&limit=7": {Cluster: "east", After: "abc", Limit: 7},
		"?cluster=&cursor=":                {Limit: 50},
		"?phase=Queued":                    {Limit: 50, Phases: []berth.Phase{berth.PhaseQueued}},
		"?phase=Queued,InProgress":         {Limit: 50, Phases: []berth.Phase{berth.PhaseQueued, berth.PhaseInProgress}},
		"?phase=Queued%2CPartiallyFailed":  {Limit: 50, Phases: []berth.Phase{berth.PhaseQueued, berth.PhasePartiallyFailed}},
	} {
		var got berth.ListOptions
		url, client := serve(t, store{backups: func(o berth.ListOptions) (berth.List, error) {
			got = o
			return berth.List{}, nil
		}})
		answer, body := send(t, client, http.MethodGet, url+"/backups"+query, "")
		if diff := cmp.Diff(want, got); diff != "" || string(body) != `{"items":[],"nextCursor":null}`+"\n" {
			t.Errorf("%s: %d %s; options (-want +got):\n%s", query, answer.StatusCode, body, diff)
		}
	}
}

func TestQueueHandsItsPageToTheStore(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]berth.QueueOptions{
		"":                      {Cluster: "default", Limit: 100},
		"?cluster=":             {Cluster: "default", Limit: 100},
		"?cluster=east&limit=1": {Cluster: "east", Limit: 1},
		"?limit=1000":           {Cluster: "default", Limit: 1000},
		"?limit=1001":           {Cluster: "default", Limit: 1000},
		"?cursor=next%2F%2B%3D": {Cluster: "default", Limit: 100, After: "next/+="},
	} {
		var got berth.QueueOptions
		url, client := serve(t, store{queue: func(o berth.QueueOptions) (berth.Queue, error) {
			got = o
			return berth.Queue{Next: "more"}, nil
		}})
		answer, body := send(t, client, http.MethodGet, url+"/queue"+query, "")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %d %s; options (-want +got):\n%s", query, answer.StatusCode, body, diff)
		}
		if !strings.Contains(string(body), `"nextCursor":"more"`) {
			t.Errorf("%s: the next page is not told: %s", query, body)
		}
	}
}

func TestTheContractIsServedByteForByte(t *testing.T) {
	t.Parallel()
	url, client := serve(t, store{})
	answer, body := send(t, client, http.MethodGet, url+"/openapi.yaml", "")
	if string(body) != string(berth.OpenAPI) || answer.Header.Get("Content-Type") != "application/yaml" {
		t.Errorf("got %d %s of %d bytes, want %d bytes", answer.StatusCode, answer.Header.Get("Content-Type"), len(body), len(berth.OpenAPI))
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	url, client := serve(t, working())
	for _, target := range []string{"/livez", "/readyz"} {
		answer, body := send(t, client, http.MethodGet, url+target, "")
		if answer.StatusCode != 200 || string(body) != `{"status":"ok"}`+"\n" {
			t.Errorf("%s: got %d %s", target, answer.StatusCode, body)
		}
	}
	deaf, deafClient := serve(t, store{})
	if answer, body := send(t, deafClient, http.MethodGet, deaf+"/livez", ""); answer.StatusCode != 200 {
		t.Errorf("/livez asks the store: %d %s", answer.StatusCode, body)
	}
}

func TestBackupsAreShownWhole(t *testing.T) {
	t.Parallel()
	url, client := serve(t, working())
	show := func(b berth.Backup) map[string]any {
		_, body := send(t, client, http.MethodGet, url+"/backups/"+b.ID.String(), "")
		var shown map[string]any
		if err := json.Unmarshal(body, &shown); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		return shown
	}
	type object = map[string]any
	type array = []any
	const instant = "2026-07-01T10:00:00Z"
	links := func(b berth.Backup) object {
		return object{"self": "/backups/" + b.ID.String(), "explain": "/backups/" + b.ID.String() + "/explain", "logs": "/backups/" + b.ID.String() + "/logs"}
	}
	for _, test := range []struct {
		backup berth.Backup
		want   object
	}{
		{queued, object{
			"id": queued.ID.String(), "name": "shop", "cluster": "default", "phase": "Queued", "reason": nil, "message": nil,
			"labels": object{}, "annotations": object{}, "spec": object{"includedNamespaces": array{"shop"}},
			"priority": 0., "notBefore": nil, "startDeadline": nil,
			"createdAt": instant, "enqueuedAt": instant, "readyAt": nil, "startedAt": nil, "completedAt": nil, "expiresAt": nil,
			"queue": object{"position": 1., "overlappingAhead": 1., "blockedBy": array{object{
				"reason": "RunningOverlap", "backup": object{"id": running.ID.String(), "name": "nightly"},
				"namespaces": array{"shop"}, "setting": nil, "since": instant,
			}}, "eta": nil},
			"namespaces": object{"all": false, "names": array{"shop"}, "except": array{}, "frozen": nil, "missing": nil, "excluded": nil},
			"progress":   nil, "attempt": 1., "maxAttempts": 3., "worker": nil, "slot": nil, "warnings": 0., "errors": 0.,
			"validationErrors": nil, "failureReason": nil, "artifacts": nil, "itemsByKind": nil, "version": 1., "links": links(queued),
		}},
		{notDue, object{
			"id": notDue.ID.String(), "name": "tonight", "cluster": "default", "phase": "New", "reason": nil, "message": nil,
			"labels": object{}, "annotations": object{}, "spec": object{},
			"priority": 60., "notBefore": "2026-07-01T20:00:00Z", "startDeadline": "2026-07-02T02:00:00Z",
			"createdAt": instant, "enqueuedAt": nil, "readyAt": nil, "startedAt": nil, "completedAt": nil, "expiresAt": nil,
			"queue": object{"position": nil, "overlappingAhead": 0., "blockedBy": array{object{
				"reason": "NotBefore", "backup": nil, "namespaces": array{}, "setting": "notBefore=2026-07-01T20:00:00Z", "since": instant,
			}}, "eta": object{"startP50": "2026-07-01T20:00:00Z", "startP90": "2026-07-01T20:00:00Z", "basis": "immediate", "samples": 0.}},
			"namespaces": object{"all": false, "names": array{"shop"}, "except": array{}, "frozen": nil, "missing": nil, "excluded": nil},
			"progress":   nil, "attempt": 1., "maxAttempts": 3., "worker": nil, "slot": nil, "warnings": 0., "errors": 0.,
			"validationErrors": nil, "failureReason": nil, "artifacts": nil, "itemsByKind": nil, "version": 1., "links": links(notDue),
		}},
		{running, object{
			"id": running.ID.String(), "name": "nightly", "cluster": "default", "phase": "InProgress", "reason": nil, "message": nil,
			"labels": object{"team": "shop"}, "annotations": object{}, "spec": object{},
			"priority": 0., "notBefore": nil, "startDeadline": nil,
			"createdAt": instant, "enqueuedAt": instant, "readyAt": instant, "startedAt": instant, "completedAt": nil, "expiresAt": instant,
			"queue":      nil,
			"namespaces": object{"all": true, "names": array{}, "except": array{"kube-system"}, "frozen": array{"shop"}, "missing": array{"gone"}, "excluded": array{}},
			"progress":   object{"itemsBackedUp": 5., "totalItems": 10., "bytes": 4711., "updatedAt": instant},
			"attempt":    2., "maxAttempts": 3., "worker": "worker-1", "slot": 1., "warnings": 0., "errors": 0.,
			"validationErrors": nil, "failureReason": nil, "artifacts": nil, "itemsByKind": nil, "version": 4., "links": links(running),
		}},
		{failed, object{
			"id": failed.ID.String(), "name": "refused", "cluster": "default", "phase": "FailedValidation",
			"reason": "FailedValidation", "message": "The cluster refused it.", "priority": 0., "notBefore": nil, "startDeadline": nil,
			"labels": object{}, "annotations": object{}, "spec": object{},
			"createdAt": instant, "enqueuedAt": instant, "readyAt": instant, "startedAt": nil, "completedAt": instant, "expiresAt": nil,
			"queue":      nil,
			"namespaces": object{"all": false, "names": array{}, "except": array{}, "frozen": nil, "missing": nil, "excluded": nil},
			"progress":   nil, "attempt": 1., "maxAttempts": 3., "worker": "worker-1", "slot": nil, "warnings": 1., "errors": 2.,
			"validationErrors": array{"there is no such resource"}, "failureReason": "it is not valid",
			"artifacts": array{object{"name": "tar.gz", "object": "failed.tar.gz", "size": 7., "sha256": "00ff"}}, "itemsByKind": array{object{"kind": "v1/Pod", "items": 3.}}, "version": 3.,
			"links": links(failed),
		}},
	} {
		if diff := cmp.Diff(test.want, show(test.backup)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.backup.Name, diff)
		}
	}

	_, body := send(t, client, http.MethodGet, url+"/queue", "")
	var queue map[string]any
	if err := json.Unmarshal(body, &queue); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	want := object{
		"cluster": "default", "concurrentBackups": 2., "itemBlockWorkerCount": 1., "maxQueued": nil, "paused": nil,
		"running": array{object{"slot": 1., "backup": show(running)}}, "waiting": array{show(queued), show(notDue)},
		"nextCursor": nil, "computedAt": instant, "version": 9.,
	}
	if diff := cmp.Diff(want, queue); diff != "" {
		t.Errorf("queue (-want +got):\n%s", diff)
	}
}
