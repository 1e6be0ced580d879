package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/berth-backup/berth/internal/devenv"
)

// patience is how long a condition may take to come about on a busy machine.
const patience = 60 * time.Second

// process is a berth of the test's own.
type process struct {
	t      *testing.T
	name   string
	cmd    *exec.Cmd
	output output
	done   chan struct{}
}

// output is what a process has written so far.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// startProcess starts berth with these arguments and, of Berth's variables,
// with these alone. It is killed when the test ends.
func startProcess(t *testing.T, environment []string, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, name: "berth " + strings.Join(args, " "), cmd: exec.Command(self, args...), done: make(chan struct{})}
	p.cmd.Env = append(append(foreignEnvironment(), asBerth+"=1"), environment...)
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	p.cmd.SysProcAttr = &syscall.SysProcAttr{}
	devenv.DieWithParent(p.cmd.SysProcAttr, syscall.SIGKILL)
	started := make(chan error)
	go func() {
		// The kernel takes the thread that forked for the parent: it has to live
		// as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // ProcessState has how it ended
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.signal(syscall.SIGKILL)
		<-p.done
		if strings.Contains(p.output.String(), "DATA RACE") {
			t.Errorf("%s has a data race", p.name)
		}
		if t.Failed() {
			t.Logf("%s (%s):\n%s", p.name, p.cmd.ProcessState, p.output.String())
		}
	})
	return p
}

// foreignEnvironment is this process's environment without what would set up a
// berth.
func foreignEnvironment() []string {
	var kept []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "BERTH_") && !strings.HasPrefix(variable, "KUBECONFIG=") {
			kept = append(kept, variable)
		}
	}
	return kept
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Errorf("%s: %v", p.name, err)
	}
}

// awaitEnd waits for the process to end and gives its exit code; -1 where a
// signal ended it.
func (p *process) awaitEnd() int {
	p.t.Helper()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		p.t.Fatalf("%s does not end", p.name)
		return 0
	}
}

// awaitOutput waits until the process has written what the pattern matches and
// gives its first group.
func (p *process) awaitOutput(pattern string) string {
	p.t.Helper()
	expression := regexp.MustCompile(pattern)
	var found []string
	await(p.t, p.name+" writes "+pattern, func() bool {
		select {
		case <-p.done:
			p.t.Fatalf("%s has ended", p.name)
		default:
		}
		found = expression.FindStringSubmatch(p.output.String())
		return found != nil
	})
	if len(found) < 2 {
		return ""
	}
	return found[1]
}

// await polls until the condition holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", patience, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
