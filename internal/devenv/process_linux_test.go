package devenv

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// processesIn returns the ids of the processes whose working folder is in the
// folder. Each server's is, and so is that of what a server starts.
func processesIn(tb testing.TB, folder string) []string {
	tb.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		tb.Fatal(err)
	}
	var found []string
	for _, link := range links {
		// One that has ended meanwhile, or is another user's, has no readable link.
		if dir, err := os.Readlink(link); err == nil && strings.HasPrefix(dir, folder) {
			found = append(found, filepath.Base(filepath.Dir(link)))
		}
	}
	return found
}

// eventually fails the test when condition does not become true within half a
// minute.
func eventually(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 30*time.Second)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for !condition() {
		select {
		case <-ctx.Done():
			tb.Fatalf("not within half a minute: %s", what)
		case <-ticker.C:
		}
	}
}

func gone(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, os.ErrNotExist)
}

func TestNothingOutlivesAKilledParent(t *testing.T) {
	t.Parallel()
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentVariable+"=1")
	parent.Stderr = os.Stderr
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatalf("the parent did not start its servers: %v", errors.Join(err, parent.Wait()))
	}
	var paths []string
	if err := json.Unmarshal(line, &paths); err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if folder := filepath.Dir(path); len(processesIn(t, folder)) == 0 {
			t.Errorf("no server runs in %s", folder)
		}
	}

	if err := parent.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // it was killed
	for _, path := range paths {
		folder := filepath.Dir(path)
		eventually(t, "the servers in "+folder+" end", func() bool { return len(processesIn(t, folder)) == 0 })
		eventually(t, "the next start removes "+folder, func() bool {
			removeAbandoned(os.TempDir())
			return gone(folder)
		})
	}
}

func TestOutputKillsWhatTheProgramStarted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped by the test")
	shell := command{name: "shell", path: "sh", args: []string{"-c", "sleep 1000 & wait"}, dir: dir}
	ended := make(chan error, 1)
	go func() {
		_, err := shell.output(ctx)
		ended <- err
	}()
	eventually(t, "both processes run", func() bool { return len(processesIn(t, dir)) == 2 })
	cancel(stopped)
	if err := <-ended; !errors.Is(err, stopped) {
		t.Errorf("output = %v, want the cause of the context's end", err)
	}
	eventually(t, "both processes end", func() bool { return len(processesIn(t, dir)) == 0 })
}

func TestOutputTellsWhatTheProgramPrinted(t *testing.T) {
	t.Parallel()
	shell := command{name: "shell", path: "sh", args: []string{"-c", "echo the reason >&2; exit 3"}}
	_, err := shell.output(t.Context())
	if err == nil || err.Error() != "shell: exit status 3\nthe reason" {
		t.Errorf("output = %v", err)
	}
}

func TestStopKillsWhatDoesNotEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	deaf := command{name: "deaf", path: "sh", args: []string{"-c", "trap '' TERM; echo deaf; while :; do sleep 0.01; done"}, dir: dir}
	p, err := deaf.start(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the trap is set", func() bool { return p.logTail() == "deaf" })
	if err := p.stop(syscall.SIGTERM, 50*time.Millisecond); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("stop = %v, want that it had to kill", err)
	}
	if err := p.stop(syscall.SIGTERM, time.Second); err != nil {
		t.Errorf("second stop = %v", err)
	}
}

func TestWaitReadyTellsATakenPort(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		output string
		taken  bool
	}{
		{`could not bind IPv4 address "127.0.0.1": Address already in use`, true},
		{"listen tcp 127.0.0.1:1: bind: address already in use", true},
		{"Bind for 127.0.0.1:1 failed: port is already allocated", true},
		{"unrecognized configuration parameter", false},
	} {
		dir := t.TempDir()
		server := command{name: "server", path: "sh", args: []string{"-c", `echo "$0"; exit 1`, test.output}}
		p, err := server.start(filepath.Join(dir, "log"))
		if err != nil {
			t.Fatal(err)
		}
		err = waitReady(t.Context(), p, time.Millisecond, func(context.Context) error { return errors.New("no answer") })
		if err == nil || errors.Is(err, errPortTaken) != test.taken {
			t.Errorf("%q: %v, want a taken port: %t", test.output, err, test.taken)
		}
		if !test.taken && !strings.Contains(err.Error(), test.output) {
			t.Errorf("%q is not in the error: %v", test.output, err)
		}
	}
}
