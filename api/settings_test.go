package api_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/api"
)

func TestSettingsAreShownWhole(t *testing.T) {
	t.Parallel()
	type object = map[string]any
	paused := &berth.Pause{Reason: "upgrade", By: "ops", Since: noon, Until: &evening}
	for _, test := range []struct {
		settings berth.QueueSettings
		want     object
	}{
		{berth.QueueSettings{Cluster: "east", ConcurrentBackups: 2, ItemBlockWorkerCount: 3, Version: 7}, object{
			"cluster": "east", "concurrentBackups": 2., "itemBlockWorkerCount": 3., "maxQueued": nil, "paused": nil, "version": 7.,
		}},
		{berth.QueueSettings{Cluster: "east", ConcurrentBackups: 1, ItemBlockWorkerCount: 1, MaxQueued: 5000, Paused: paused, Version: 8}, object{
			"cluster": "east", "concurrentBackups": 1., "itemBlockWorkerCount": 1., "maxQueued": 5000., "version": 8.,
			"paused": object{"reason": "upgrade", "by": "ops", "since": "2026-07-01T10:00:00Z", "until": "2026-07-01T20:00:00Z"},
		}},
		{berth.QueueSettings{Cluster: "east", ConcurrentBackups: 1, ItemBlockWorkerCount: 1, Paused: &berth.Pause{Since: noon}, Version: 9}, object{
			"cluster": "east", "concurrentBackups": 1., "itemBlockWorkerCount": 1., "maxQueued": nil, "version": 9.,
			"paused": object{"reason": nil, "by": nil, "since": "2026-07-01T10:00:00Z", "until": nil},
		}},
	} {
		url, client := serve(t, store{settings: func(string) (berth.QueueSettings, error) { return test.settings, nil }})
		_, body := send(t, client, http.MethodGet, url+"/queue/settings?cluster=east", "")
		var got object
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("settings (-want +got):\n%s", diff)
		}
	}
}

// A strong entity tag is another one whenever something else is shown.
func TestTheEntityTagMovesWithWhatIsShown(t *testing.T) {
	t.Parallel()
	settings := berth.QueueSettings{Cluster: "default", ConcurrentBackups: 1, ItemBlockWorkerCount: 1, Version: 7}
	url, client := serve(t, store{settings: func(string) (berth.QueueSettings, error) { return settings, nil }})
	tag := func() string {
		answer, _ := send(t, client, http.MethodGet, url+"/queue/settings", "")
		return answer.Header.Get("ETag")
	}
	first := tag()
	if again := tag(); again != first || !strings.HasPrefix(first, `"7.`) {
		t.Errorf("the same settings have the tags %s and %s", first, again)
	}
	settings.Paused = &berth.Pause{Since: noon, Until: &evening} // which ends without a new version
	if paused := tag(); paused == first || !strings.HasPrefix(paused, `"7.`) {
		t.Errorf("paused and not, the settings have the tags %s and %s", first, paused)
	}
}

func TestIfMatch(t *testing.T) {
	t.Parallel()
	const shown = `"7.0123abcd"`
	for ifMatch, want := range map[string]struct {
		status int
		code   berth.Code
	}{
		"":                                  {428, berth.CodePreconditionRequired},
		"*":                                 {200, ""},
		shown:                               {200, ""},
		`"7"`:                               {200, ""},
		`"6.0123abcd"`:                      {412, berth.CodePreconditionFailed},
		`"8"`:                               {412, berth.CodePreconditionFailed},
		`W/"7"`:                             {412, berth.CodePreconditionFailed},
		`""`:                                {412, berth.CodePreconditionFailed},
		`"seven"`:                           {412, berth.CodePreconditionFailed},
		`"` + strings.Repeat("9", 30) + `"`: {412, berth.CodePreconditionFailed},
		"7":                                 {400, berth.CodeMalformedRequest},
		`"7`:                                {400, berth.CodeMalformedRequest},
		`"7", "8"`:                          {400, berth.CodeMalformedRequest},
	} {
		url, client := serve(t, working()) // at version 7
		var header []string
		if ifMatch != "" {
			header = []string{"If-Match", ifMatch}
		}
		answer, body := send(t, client, http.MethodPatch, url+"/queue/settings", `{"concurrentBackups":4}`, header...)
		if answer.StatusCode != want.status {
			t.Errorf("If-Match %s: got %d, want %d: %s", ifMatch, answer.StatusCode, want.status, body)
		}
		if want.code == "" {
			if tag := answer.Header.Get("ETag"); !strings.HasPrefix(tag, `"8.`) {
				t.Errorf("If-Match %s: the answer has the ETag %s", ifMatch, tag)
			}
			continue
		}
		if problem := problemOf(t, answer, body); problem.Code != want.code || problem.Retryable {
			t.Errorf("If-Match %s: %s", ifMatch, body)
		}
	}
}

func TestIfMatchTwice(t *testing.T) {
	t.Parallel()
	url, client := serve(t, working())
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, url+"/queue/settings", strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header["If-Match"] = []string{`"7"`, `"8"`}
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	var problem api.Problem
	if err := json.NewDecoder(answer.Body).Decode(&problem); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"If-Match": "duplicate-parameter"}, places(problem)); answer.StatusCode != 400 || diff != "" {
		t.Errorf("got %d; errors (-want +got):\n%s", answer.StatusCode, diff)
	}
}

func TestSettingsHandTheChangeToTheStore(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]berth.SettingsChange{
		`{}`: {},
		`{"concurrentBackups":4,"itemBlockWorkerCount":2,"maxQueued":100}`: {ConcurrentBackups: new(4), ItemBlockWorkerCount: new(2), MaxQueued: new(100)},
		`{"maxQueued":null}`: {MaxQueued: new(0)},
	} {
		var got berth.SettingsChange
		var of string
		url, client := serve(t, store{change: func(cluster string, c berth.SettingsChange) (berth.QueueSettings, error) {
			of, got = cluster, c
			return berth.QueueSettings{Cluster: cluster, ConcurrentBackups: 1, ItemBlockWorkerCount: 1}, nil
		}})
		answer, received := send(t, client, http.MethodPatch, url+"/queue/settings?cluster=east", body,
			"If-Match", `"7.0123abcd"`, "Content-Type", "application/merge-patch+json")
		want.IfVersion = new(int64(7))
		if diff := cmp.Diff(want, got); answer.StatusCode != 200 || of != "east" || diff != "" {
			t.Errorf("%s: %d %s; change of %q (-want +got):\n%s", body, answer.StatusCode, received, of, diff)
		}
	}
}

func TestPauseAndResumeHandTheirWordsToTheStore(t *testing.T) {
	t.Parallel()
	type asked struct {
		Cluster, By string
		Pause       *berth.PauseRequest
	}
	var got asked
	url, client := serve(t, store{
		pause: func(cluster string, p berth.PauseRequest) (berth.QueueSettings, error) {
			got = asked{Cluster: cluster, Pause: &p}
			return berth.QueueSettings{Cluster: cluster}, nil
		},
		resume: func(cluster, by string) (berth.QueueSettings, error) {
			got = asked{Cluster: cluster, By: by}
			return berth.QueueSettings{Cluster: cluster}, nil
		},
	})
	for _, test := range []struct {
		operation operation
		body      string
		want      asked
	}{
		{pauseQueue, ``, asked{Cluster: "default", Pause: &berth.PauseRequest{}}},
		{pauseQueue, `{"cluster":null,"reason":null,"by":null,"until":null}`, asked{Cluster: "default", Pause: &berth.PauseRequest{}}},
		{pauseQueue, `{"cluster":"east","reason":"upgrade","by":"ops","until":"9000-01-01T00:00:00Z"}`, asked{Cluster: "east", Pause: &berth.PauseRequest{
			Reason: "upgrade", By: "ops", Until: new(time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC)),
		}}},
		{resumeQueue, ``, asked{Cluster: "default"}},
		{resumeQueue, `{"cluster":"east","by":"ops"}`, asked{Cluster: "east", By: "ops"}},
	} {
		answer, received := test.operation.send(t, client, url, test.body)
		if diff := cmp.Diff(test.want, got); answer.StatusCode != 200 || answer.Header.Get("ETag") == "" || diff != "" {
			t.Errorf("%s %s: %d %s; asked (-want +got):\n%s", test.operation.path, test.body, answer.StatusCode, received, diff)
		}
	}
}
