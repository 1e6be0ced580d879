package backup_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/worker/backup"
)

// roundTrip answers a request itself, or hands it on to next.
type roundTrip func(next http.RoundTripper, request *http.Request) (*http.Response, error)

type middle struct {
	next  http.RoundTripper
	round roundTrip
}

func (m middle) RoundTrip(request *http.Request) (*http.Response, error) {
	return m.round(m.next, request)
}

// through makes every request of the cluster under test pass round.
func (f *fixture) through(options backup.Options, round roundTrip) {
	f.Helper()
	config := rest.CopyConfig(f.config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return middle{next, round} })
	f.cluster = f.clusterOf(config, options)
}

func lists(request *http.Request, resource string) bool {
	return strings.HasSuffix(request.URL.Path, "/"+resource) && request.URL.Query().Has("limit")
}

func status(request *http.Request, code int, reason metav1.StatusReason) *http.Response {
	body, _ := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: "injected",
	})
	return answer(request, code, io.NopCloser(bytes.NewReader(body)))
}

func answer(request *http.Request, code int, body io.ReadCloser) *http.Response {
	return &http.Response{
		StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: request,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: body,
	}
}

// configMapsOf are the names of the ConfigMaps in the archive.
func (f *fixture) configMapsOf(namespace string) []string {
	f.Helper()
	var names []string
	for _, path := range f.plainPaths() {
		if name, ok := strings.CutPrefix(path, "resources/configmaps/namespaces/"+namespace+"/"); ok {
			names = append(names, strings.TrimSuffix(name, ".json"))
		}
	}
	return names
}

func TestAListWhoseContinuationExpiresBeginsAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	namespace := f.namespace("expired")
	f.configMaps(namespace, 55)
	var pages, expired atomic.Int32
	f.through(backup.Options{PageSize: 10}, func(next http.RoundTripper, request *http.Request) (*http.Response, error) {
		if lists(request, "configmaps") {
			if pages.Add(1) == 4 {
				expired.Add(1)
				return status(request, http.StatusGone, metav1.StatusReasonExpired), nil
			}
		}
		return next.RoundTrip(request)
	})
	taken := f.takeAndPublish(run(namespace))
	if expired.Load() != 1 || pages.Load() != 4+6 {
		t.Errorf("%d pages were asked for, %d expired", pages.Load(), expired.Load())
	}
	if taken.Outcome.Phase != berth.PhaseCompleted || taken.Outcome.Progress.ItemsBackedUp != taken.Outcome.Progress.TotalItems {
		t.Errorf("the outcome is %+v", taken.Outcome)
	}
	// Files that stand twice in the archive are an error of plainPaths.
	if names := f.configMapsOf(namespace); len(names) != 55 {
		t.Errorf("%d of 55 ConfigMaps are in the archive", len(names))
	}
}

// After some restarts the list is asked for as a whole, which cannot expire.
func TestAListThatAlwaysExpiresIsReadAsAWhole(t *testing.T) {
	t.Parallel()
	for name, whole := range map[string]bool{"and can": true, "and cannot": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			namespace := f.namespace("always")
			f.configMaps(namespace, 15)
			f.through(backup.Options{PageSize: 10}, func(next http.RoundTripper, request *http.Request) (*http.Response, error) {
				switch query := request.URL.Query(); {
				case !strings.HasSuffix(request.URL.Path, "/configmaps"):
				case query.Has("continue"):
					return status(request, http.StatusGone, metav1.StatusReasonExpired), nil
				case !query.Has("limit") && !whole:
					return status(request, http.StatusGatewayTimeout, metav1.StatusReasonTimeout), nil
				}
				return next.RoundTrip(request)
			})
			r := run(namespace)
			r.Spec.IncludedResources = []string{"configmaps", "secrets"}
			o := f.takeAndPublish(r).Outcome
			if names := f.configMapsOf(namespace); whole && (len(names) != 15 || o.Phase != berth.PhaseCompleted) {
				t.Errorf("%d of 15 ConfigMaps are in the archive, the outcome is %+v", len(names), o)
			}
			lines := f.results().Errors.Namespaces[namespace]
			if !whole && (o.Phase != berth.PhasePartiallyFailed || len(lines) != 1 || !strings.HasPrefix(lines[0], "list configmaps in namespace ")) {
				t.Errorf("the outcome is %+v, the errors are %q", o, lines)
			}
		})
	}
}

func TestAKindThatCannotBeListedIsAnErrorLineAndTheRestGoesOn(t *testing.T) {
	t.Parallel()
	for name, round := range map[string]roundTrip{
		"500": func(_ http.RoundTripper, request *http.Request) (*http.Response, error) {
			return status(request, http.StatusInternalServerError, metav1.StatusReasonInternalError), nil
		},
		"403": func(_ http.RoundTripper, request *http.Request) (*http.Response, error) {
			return status(request, http.StatusForbidden, metav1.StatusReasonForbidden), nil
		},
		"no list": func(_ http.RoundTripper, request *http.Request) (*http.Response, error) {
			return answer(request, http.StatusOK, io.NopCloser(strings.NewReader(`{"kind":"Status"}`))), nil
		},
		"no JSON": func(_ http.RoundTripper, request *http.Request) (*http.Response, error) {
			return answer(request, http.StatusOK, io.NopCloser(strings.NewReader(`<html>`))), nil
		},
		"broken off each time": func(next http.RoundTripper, request *http.Request) (*http.Response, error) {
			return brokenOff(next, request)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			namespace := f.namespace("faulty")
			f.apply("namespaced.yaml", namespace)
			f.through(backup.Options{}, func(next http.RoundTripper, request *http.Request) (*http.Response, error) {
				if lists(request, "secrets") {
					return round(next, request)
				}
				return next.RoundTrip(request)
			})
			r := run(namespace)
			// Not the custom resources that other tests make and remove.
			r.Spec.IncludedResources = []string{"configmaps", "secrets", "deployments", "roles"}
			taken := f.takeAndPublish(r)
			if taken.Outcome.Phase != berth.PhasePartiallyFailed || taken.Outcome.Errors != 1 || taken.Outcome.Warnings != 0 {
				t.Errorf("the outcome is %+v", taken.Outcome)
			}
			lines := f.results().Errors.Namespaces[namespace]
			if len(lines) != 1 || !strings.HasPrefix(lines[0], "list secrets in namespace "+namespace+": ") {
				t.Errorf("the errors are %q", lines)
			}
			paths := f.plainPaths()
			for _, want := range []string{"configmaps", "deployments.apps", "roles.rbac.authorization.k8s.io"} {
				if !slices.ContainsFunc(paths, func(s string) bool { return strings.HasPrefix(s, "resources/"+want+"/namespaces/"+namespace) }) {
					t.Errorf("no object of %s in the archive", want)
				}
			}
		})
	}
}

// brokenOff lets half of an answer through.
func brokenOff(next http.RoundTripper, request *http.Request) (*http.Response, error) {
	response, err := next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return nil, err
	}
	half := io.MultiReader(bytes.NewReader(body[:len(body)/2]), failingReader{})
	return answer(request, response.StatusCode, io.NopCloser(half)), nil
}

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestAKindThatIsGoneIsAWarning(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]bool{"gone": true, "still served": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.through(backup.Options{}, func(next http.RoundTripper, request *http.Request) (*http.Response, error) {
				if lists(request, "leases") || gone && request.URL.Path == "/apis/coordination.k8s.io/v1" {
					return status(request, http.StatusNotFound, metav1.StatusReasonNotFound), nil
				}
				return next.RoundTrip(request)
			})
			r := run(f.namespace("gone"))
			r.Spec.IncludedResources = []string{"leases", "configmaps"}
			o := f.takeAndPublish(r).Outcome
			want := map[bool]berth.Phase{true: berth.PhaseCompleted, false: berth.PhasePartiallyFailed}[gone]
			if o.Phase != want || o.Errors+o.Warnings != 1 {
				t.Errorf("the outcome is %+v", o)
			}
		})
	}
}

func TestAPageThatBreaksOffOnceIsReadAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	namespace := f.namespace("broken")
	f.configMaps(namespace, 30)
	var pages atomic.Int32
	f.through(backup.Options{PageSize: 10}, func(next http.RoundTripper, request *http.Request) (*http.Response, error) {
		if lists(request, "configmaps") && pages.Add(1) == 2 {
			return brokenOff(next, request)
		}
		return next.RoundTrip(request)
	})
	taken := f.takeAndPublish(run(namespace))
	if taken.Outcome.Phase != berth.PhaseCompleted {
		t.Errorf("the outcome is %+v", taken.Outcome)
	}
	if names := f.configMapsOf(namespace); len(names) != 30 || pages.Load() != 4 {
		t.Errorf("%d of 30 ConfigMaps are in the archive after %d pages", len(names), pages.Load())
	}
}

func TestAServerThatAsksForPatienceGetsIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	namespace := f.namespace("patience")
	f.configMaps(namespace, 3)
	var refused atomic.Int32
	f.through(backup.Options{}, func(next http.RoundTripper, request *http.Request) (*http.Response, error) {
		if lists(request, "configmaps") && refused.Add(1) <= 2 {
			response := status(request, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests)
			response.Header.Set("Retry-After", "0")
			return response, nil
		}
		return next.RoundTrip(request)
	})
	if o := f.takeAndPublish(run(namespace)).Outcome; o.Phase != berth.PhaseCompleted {
		t.Errorf("the outcome is %+v", o)
	}
	if names := f.configMapsOf(namespace); len(names) != 3 {
		t.Errorf("%d of 3 ConfigMaps are in the archive", len(names))
	}
}

func TestAnAPIServerThatIsAwayFailsTheAttemptNotTheBackup(t *testing.T) {
	t.Parallel()
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	for name, away := range map[string]func(*http.Request) bool{
		"from the beginning": func(*http.Request) bool { return true },
		"while listing":      func(request *http.Request) bool { return lists(request, "secrets") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.through(backup.Options{}, func(next http.RoundTripper, request *http.Request) (*http.Response, error) {
				if away(request) {
					return nil, refused
				}
				return next.RoundTrip(request)
			})
			_, err := backup.Take(t.Context(), f.cluster, f.store, backup.Job{Run: run(f.namespace("away"))})
			if _, failed := errors.AsType[*backup.Failure](err); failed || !errors.Is(err, refused) {
				t.Errorf("the error is %v", err)
			}
			f.holdsNothingVisible()
		})
	}
}

func TestAnAPIServerThatFallsSilentFailsTheAttempt(t *testing.T) {
	t.Parallel()
	for name, silent := range map[string]func(http.RoundTripper, *http.Request) (*http.Response, error){
		"before the answer": func(_ http.RoundTripper, request *http.Request) (*http.Response, error) {
			<-request.Context().Done()
			return nil, request.Context().Err()
		},
		"in its middle": func(_ http.RoundTripper, request *http.Request) (*http.Response, error) {
			return answer(request, http.StatusOK, io.NopCloser(silentReader{request.Context()})), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.through(backup.Options{RequestTimeout: time.Second}, func(next http.RoundTripper, request *http.Request) (*http.Response, error) {
				if lists(request, "secrets") {
					return silent(next, request)
				}
				return next.RoundTrip(request)
			})
			_, err := backup.Take(t.Context(), f.cluster, f.store, backup.Job{Run: run(f.namespace("silent"))})
			if _, failed := errors.AsType[*backup.Failure](err); err == nil || failed || !strings.Contains(err.Error(), "silence for 1s") {
				t.Errorf("the error is %v", err)
			}
			f.holdsNothingVisible()
		})
	}
}

type silentReader struct{ ctx context.Context }

func (r silentReader) Read([]byte) (int, error) {
	<-r.ctx.Done()
	return 0, r.ctx.Err()
}

func TestAClusterThatRefusesDiscoveryFailsTheBackup(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.through(backup.Options{}, func(next http.RoundTripper, request *http.Request) (*http.Response, error) {
		if strings.HasPrefix(request.URL.Path, "/api") {
			return status(request, http.StatusUnauthorized, metav1.StatusReasonUnauthorized), nil
		}
		return next.RoundTrip(request)
	})
	_, err := backup.Take(t.Context(), f.cluster, f.store, backup.Job{Run: run(f.namespace("refused"))})
	if o := failureOf(t, err).Outcome(); o.Reason != backup.ReasonDiscovery {
		t.Errorf("the outcome is %+v", o)
	}
	f.holdsNothingVisible()
}

func TestAnAPIGroupThatCannotBeDiscoveredIsAWarning(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	namespace := f.namespace("group")
	f.configMap(namespace, "x", nil)
	f.through(backup.Options{}, func(next http.RoundTripper, request *http.Request) (*http.Response, error) {
		switch {
		case request.URL.Path == "/apis":
			// Without the aggregated answer each group is asked for itself.
			request = request.Clone(request.Context())
			request.Header.Set("Accept", "application/json")
		case request.URL.Path == "/apis/apps/v1":
			return status(request, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable), nil
		}
		return next.RoundTrip(request)
	})
	o := f.takeAndPublish(run(namespace)).Outcome
	if o.Phase != berth.PhaseCompleted || o.Warnings == 0 {
		t.Errorf("the outcome is %+v", o)
	}
	lines := f.results().Warnings.Cluster
	if !slices.ContainsFunc(lines, func(s string) bool { return strings.Contains(s, "apps/v1 cannot be discovered") }) {
		t.Errorf("the warnings are %q", lines)
	}
	if names := f.configMapsOf(namespace); len(names) != 1 {
		t.Errorf("%d ConfigMaps are in the archive", len(names))
	}
}

func TestACanceledRunStopsAndLeavesNothingVisible(t *testing.T) {
	t.Parallel()
	for _, page := range []int32{1, 3} {
		t.Run(fmt.Sprintf("page %d", page), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			namespace := f.namespace("canceled")
			f.configMaps(namespace, 45)
			ctx, cancel := context.WithCancel(t.Context())
			var pages atomic.Int32
			f.through(backup.Options{PageSize: 10}, func(next http.RoundTripper, request *http.Request) (*http.Response, error) {
				if lists(request, "configmaps") && pages.Add(1) == page {
					cancel()
				}
				return next.RoundTrip(request)
			})
			r := run(namespace)
			_, err := backup.Take(ctx, f.cluster, f.store, backup.Job{Run: r})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("the error is %v", err)
			}
			f.holdsNothingVisible()
			// The name is free for the next attempt, which leaves none of the old.
			f.through(backup.Options{}, func(next http.RoundTripper, request *http.Request) (*http.Response, error) {
				return next.RoundTrip(request)
			})
			if o := f.takeAndPublish(nextAttempt(r)).Outcome; o.Phase != berth.PhaseCompleted {
				t.Errorf("the next attempt's outcome is %+v", o)
			}
			if got := f.storeHolds(); !slices.Equal(got, whole) {
				t.Errorf("the store holds %q", got)
			}
		})
	}
}

// holdsNothingVisible fails where the store holds more than the claim.
func (f *fixture) holdsNothingVisible() {
	f.Helper()
	for _, name := range f.storeHolds() {
		if name != "nightly-berth.json" {
			f.Errorf("the store holds %s", name)
		}
	}
}

func TestAPanicFailsItsBackupWithTheStack(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	namespace, other := f.namespace("panic"), f.namespace("calm")
	f.configMaps(namespace, 20)
	f.configMaps(other, 20)
	panicked := make(chan struct{})
	var once sync.Once
	// Another backup of the process is in its middle when this one panics.
	calm := make(chan error, 1)
	go func() {
		r := run(other)
		r.Name = "calm"
		var wait sync.Once
		taken, err := backup.Take(t.Context(), f.cluster, f.store, backup.Job{Run: r, Progress: func(p berth.Progress) {
			if p.ItemsBackedUp > 0 {
				wait.Do(func() { <-panicked })
			}
		}})
		if err == nil && taken.Outcome.Phase != berth.PhaseCompleted {
			err = fmt.Errorf("the outcome is %+v", taken.Outcome)
		}
		calm <- err
	}()
	_, err := backup.Take(t.Context(), f.cluster, f.store, backup.Job{Run: run(namespace), Progress: func(p berth.Progress) {
		if p.ItemsBackedUp > 0 {
			once.Do(func() { panic("a fault of the test") })
		}
	}})
	close(panicked)
	o := failureOf(t, err).Outcome()
	if o.Reason != backup.ReasonPanic || !strings.Contains(o.Message, "a fault of the test") || !strings.Contains(o.Message, "faults_test.go") {
		t.Errorf("the outcome is %+v", o)
	}
	f.holdsNothingVisible()
	if err := <-calm; err != nil {
		t.Errorf("the other backup: %v", err)
	}
}
