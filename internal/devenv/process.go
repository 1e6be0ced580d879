package devenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// command is a program to start: a server that runs until it is stopped, or a
// tool that runs to its end.
type command struct {
	name string   // what errors call it
	path string   // the executable
	args []string // without the program's name
	env  []string // the whole environment; nil is this process's own
	dir  string   // working folder; "" is this process's own
	user *account // whom to run as; nil is this process's own user

	// orphaned is what the kernel sends to the program when this process dies.
	// The zero value is SIGKILL.
	orphaned syscall.Signal
}

// process is a started server.
type process struct {
	name    string
	logPath string // where its output goes
	cmd     *exec.Cmd
	done    chan struct{} // closed once it has ended
	err     error         // of Wait; to be read after done
}

// start starts the program with its output in the file logPath.
func (c command) start(logPath string) (*process, error) {
	log, err := os.Create(logPath)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	defer log.Close()
	cmd := c.prepare()
	cmd.Stdout, cmd.Stderr = log, log

	p := &process{name: c.name, logPath: logPath, cmd: cmd, done: make(chan struct{})}
	if err := p.launch(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	return p, nil
}

// output runs the program to its end and returns what it printed. When ctx ends
// first, the program and what it started are killed.
func (c command) output(ctx context.Context) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	cmd := c.prepare()
	cmd.Stdout, cmd.Stderr = &stdout, &stderr

	p := &process{name: c.name, cmd: cmd, done: make(chan struct{})}
	if err := p.launch(); err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		p.kill()
		return nil, fmt.Errorf("%s: %w", c.name, context.Cause(ctx))
	}
	if p.err != nil {
		text := strings.TrimSpace(stderr.String())
		if text == "" {
			text = strings.TrimSpace(stdout.String())
		}
		return nil, fmt.Errorf("%s: %w\n%s", c.name, p.err, lastLines(text, 20))
	}
	return stdout.Bytes(), nil
}

func (c command) prepare() *exec.Cmd {
	cmd := exec.Command(c.path, c.args...)
	cmd.Env, cmd.Dir = c.env, c.dir
	cmd.WaitDelay = 5 * time.Second
	// A group of its own: Ctrl-C in a terminal reaches this process alone, which
	// then stops its servers in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if c.user != nil {
		cmd.SysProcAttr.Credential = c.user.credential()
	}
	signal := c.orphaned
	if signal == 0 {
		signal = syscall.SIGKILL
	}
	DieWithParent(cmd.SysProcAttr, signal)
	return cmd
}

// launch starts the process and returns once it runs. The kernel takes the death
// of the thread that forked for the death of the parent, so that thread is
// locked and does nothing but wait for this one child.
func (p *process) launch() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return <-started
}

// stop sends signal, waits up to grace for the process to end, then kills it.
// It returns an error only when it had to kill.
func (p *process) stop(signal syscall.Signal, grace time.Duration) error {
	if err := p.cmd.Process.Signal(signal); errors.Is(err, os.ErrProcessDone) {
		<-p.done
		return nil
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
		p.kill()
		return fmt.Errorf("stop %s: still running after %s, killed", p.name, grace)
	}
}

// kill ends the process and its group at once.
func (p *process) kill() {
	// The process has not been waited for, or done is closed and its number may
	// be another's by now.
	select {
	case <-p.done:
		return
	default:
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.done
}

// logTail returns the last lines the process printed.
func (p *process) logTail() string {
	text, err := os.ReadFile(p.logPath)
	if err != nil {
		return err.Error()
	}
	return lastLines(strings.TrimSpace(string(text)), 20)
}

func lastLines(text string, n int) string {
	lines := strings.Split(text, "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return strings.Join(lines, "\n")
}
