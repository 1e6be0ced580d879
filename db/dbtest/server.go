package dbtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/berth-backup/berth/internal/devenv"
)

// sharedContainer is the Postgres that the tests of this process share when
// BERTH_TEST_POSTGRES=container asks for one.
var sharedContainer struct {
	once sync.Once
	url  string
	stop func() error
	err  error
}

// serverURL is that of the Postgres which the tests of this process share: the
// development environment's, or a container of its own.
func serverURL(tb testing.TB) string {
	tb.Helper()
	switch kind := os.Getenv("BERTH_TEST_POSTGRES"); kind {
	case "":
		return devenv.TestPostgres(tb).URL
	case "container":
	default:
		tb.Fatalf("BERTH_TEST_POSTGRES=%s: only container is known", kind)
	}
	sharedContainer.once.Do(func() {
		// Not the test's context: the server outlives the test.
		sharedContainer.url, sharedContainer.stop, sharedContainer.err = StartPostgresContainer(context.Background())
	})
	if sharedContainer.err != nil {
		tb.Fatal(sharedContainer.err)
	}
	return sharedContainer.url
}

// RunTests runs a package's tests and stops what they started: all of a
// TestMain.
func RunTests(m *testing.M) int {
	code := devenv.RunTests(m)
	if sharedContainer.stop == nil {
		return code
	}
	if err := sharedContainer.stop(); err != nil {
		fmt.Fprintln(os.Stderr, errors.Join(errors.New("stop the tests' Postgres"), err))
		code = max(code, 1)
	}
	return code
}
