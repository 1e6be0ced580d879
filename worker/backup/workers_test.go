package backup_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"regexp"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-backup/berth/worker/backup"
)

// A running backup has as many workers as its cluster's limit was when it was
// admitted; each worker waits for the list here.
func TestARunHasTheWorkersThatItWasAdmittedWith(t *testing.T) {
	t.Parallel()
	for asked, want := range map[int]int{0: 1, 1: 1, 7: 7} {
		t.Run(strconv.Itoa(asked), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			namespace := f.namespace("workers")
			r := run(namespace)
			r.ItemBlockWorkerCount = asked
			var once sync.Once
			f.through(backup.Options{}, func(next http.RoundTripper, request *http.Request) (*http.Response, error) {
				if lists(request, "configmaps") {
					once.Do(func() {
						if got := settled(t, r.ID.String(), want); got != want {
							t.Errorf("%d workers, want %d", got, want)
						}
					})
				}
				return next.RoundTrip(request)
			})
			pprof.Do(t.Context(), pprof.Labels("run", r.ID.String()), func(context.Context) { f.take(backup.Job{Run: r}) })
		})
	}
}

// settled waits until a run has as many workers as are wanted, or for 10 s, and
// gives how many it has.
func settled(tb testing.TB, run string, want int) (n int) {
	tb.Helper()
	looks, late := time.NewTicker(time.Millisecond), time.After(10*time.Second)
	defer looks.Stop()
	for {
		if n = goroutinesOf(tb, run); n >= want {
			return n
		}
		select {
		case <-looks.C:
		case <-late:
			return n
		}
	}
}

// profiled is how many goroutines stand where a profile says.
var profiled = regexp.MustCompile(`(?m)^(\d+) @`)

// goroutinesOf counts the workers among the goroutines that carry a run's label.
func goroutinesOf(tb testing.TB, run string) (n int) {
	tb.Helper()
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		tb.Fatal(err)
	}
	for _, alike := range strings.Split(profile.String(), "\n\n") {
		counted := profiled.FindStringSubmatch(alike)
		if counted == nil || !strings.Contains(alike, fmt.Sprintf("%q:%q", "run", run)) || !strings.Contains(alike, "(*collector).work+") {
			continue
		}
		more, err := strconv.Atoi(counted[1])
		if err != nil {
			tb.Fatal(err)
		}
		n += more
	}
	return n
}
