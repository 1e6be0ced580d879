package api_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
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

func TestQueueOfTheDefaultCluster(t *testing.T) {
	t.Parallel()
	url, client := serve(t, working())
	for query, cluster := range map[string]string{"": "default", "?cluster=": "default", "?cluster=east": "east"} {
		_, body := send(t, client, http.MethodGet, url+"/queue"+query, "")
		var queue struct{ Cluster string }
		if err := json.Unmarshal(body, &queue); err != nil || queue.Cluster != cluster {
			t.Errorf("%q: got the queue of %q: %s", query, queue.Cluster, body)
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
	for _, test := range []struct {
		backup berth.Backup
		want   object
	}{
		{queued, object{
			"id": queued.ID.String(), "name": "shop", "cluster": "default", "phase": "Queued", "reason": nil, "message": nil,
			"labels": object{}, "annotations": object{}, "spec": object{"includedNamespaces": array{"shop"}},
			"createdAt": instant, "enqueuedAt": instant, "readyAt": nil, "startedAt": nil, "completedAt": nil, "expiresAt": nil,
			"queue": object{"position": 1., "overlappingAhead": 1., "blockedBy": array{object{
				"reason": "RunningOverlap", "backup": object{"id": running.ID.String(), "name": "nightly"},
				"namespaces": array{"shop"}, "setting": nil, "since": instant,
			}}},
			"namespaces": object{"all": false, "names": array{"shop"}, "except": array{}, "frozen": nil},
			"progress":   nil, "attempt": 1., "maxAttempts": 3., "worker": nil, "slot": nil, "warnings": 0., "errors": 0.,
			"validationErrors": nil, "failureReason": nil, "version": 1., "links": object{"self": "/backups/" + queued.ID.String()},
		}},
		{running, object{
			"id": running.ID.String(), "name": "nightly", "cluster": "default", "phase": "InProgress", "reason": nil, "message": nil,
			"labels": object{"team": "shop"}, "annotations": object{}, "spec": object{},
			"createdAt": instant, "enqueuedAt": instant, "readyAt": instant, "startedAt": instant, "completedAt": nil, "expiresAt": instant,
			"queue":      nil,
			"namespaces": object{"all": true, "names": array{}, "except": array{"kube-system"}, "frozen": array{"shop"}},
			"progress":   object{"itemsBackedUp": 5., "totalItems": 10., "bytes": 4711., "updatedAt": instant},
			"attempt":    2., "maxAttempts": 3., "worker": "worker-1", "slot": 1., "warnings": 0., "errors": 0.,
			"validationErrors": nil, "failureReason": nil, "version": 4., "links": object{"self": "/backups/" + running.ID.String()},
		}},
		{failed, object{
			"id": failed.ID.String(), "name": "refused", "cluster": "default", "phase": "FailedValidation",
			"reason": "FailedValidation", "message": "The cluster refused it.",
			"labels": object{}, "annotations": object{}, "spec": object{},
			"createdAt": instant, "enqueuedAt": instant, "readyAt": instant, "startedAt": nil, "completedAt": instant, "expiresAt": nil,
			"queue":      nil,
			"namespaces": object{"all": false, "names": array{}, "except": array{}, "frozen": nil},
			"progress":   nil, "attempt": 1., "maxAttempts": 3., "worker": "worker-1", "slot": nil, "warnings": 1., "errors": 2.,
			"validationErrors": array{"there is no such resource"}, "failureReason": "it is not valid", "version": 3.,
			"links": object{"self": "/backups/" + failed.ID.String()},
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
		"cluster": "default", "concurrentBackups": 2., "computedAt": instant, "version": 9.,
		"running": array{object{"slot": 1., "backup": show(running)}}, "waiting": array{show(queued)},
	}
	if diff := cmp.Diff(want, queue); diff != "" {
		t.Errorf("queue (-want +got):\n%s", diff)
	}
	if keys := slices.Sorted(maps.Keys(queue)); len(keys) != 6 {
		t.Errorf("the queue has the members %v", keys)
	}
}
