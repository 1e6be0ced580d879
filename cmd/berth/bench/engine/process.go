package engine

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"sync"
	"syscall"
	"time"
)

// patience is how long a process may take to be ready, and a backup to end.
const patience = 10 * time.Minute

// process is a program of the run.
type process struct {
	name   string
	cmd    *exec.Cmd
	output output
	done   chan struct{}
}

// output is the end of what a process has written.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.text.Len() > 1<<20 {
		o.text.Reset()
	}
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func startProcess(name, path string, environment []string, args ...string) (*process, error) {
	p := &process{name: name, cmd: exec.Command(path, args...), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), environment...)
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		_ = p.cmd.Wait() // whoever asks for it, asks too late
		close(p.done)
	}()
	return p, nil
}

// stop asks the process to end, and ends it after a while.
func (p *process) stop() error {
	if p == nil {
		return nil
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(10 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
	return nil
}

// says waits until the process has written what the pattern matches, and gives the
// pattern's first group.
func (p *process) says(ctx context.Context, pattern string) (found string, err error) {
	expression := regexp.MustCompile(pattern)
	err = until(ctx, func() (bool, error) {
		select {
		case <-p.done:
			return false, fmt.Errorf("%s has ended: %s", p.name, p.output.String())
		default:
		}
		groups := expression.FindStringSubmatch(p.output.String())
		if len(groups) > 1 {
			found = groups[1]
		}
		return groups != nil, nil
	})
	return found, err
}

// until looks every few milliseconds whether something holds.
func until(ctx context.Context, holds func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := holds()
		if ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
