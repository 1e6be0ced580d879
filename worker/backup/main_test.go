package backup_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/berth-backup/berth/internal/devenv"
)

func TestMain(m *testing.M) {
	// What a bucket of the tests asks for.
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
		if err := os.Setenv(name, "test"); err != nil {
			panic(err)
		}
	}
	code := devenv.RunTests(m)
	// Connections that are kept for the next request are no leak.
	err := goleak.Find(
		// A library of the tests' kubelet begins it when it is loaded.
		goleak.IgnoreAnyFunction("go.opencensus.io/stats/view.(*worker).start"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
		goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*clientConnReadLoop).run"),
		goleak.IgnoreAnyFunction("net/http.(*http2clientConnReadLoop).run"))
	if code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, "goroutines outlive the tests:", err)
		code = 1
	}
	os.Exit(code)
}
