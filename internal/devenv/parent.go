package devenv

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Orphaned gives a channel that is closed once this process's parent has died,
// or the parent's parent: `go run` and make, when they are killed, take nobody
// along. Where there is no /proc, the parent alone is watched.
func Orphaned() <-chan struct{} {
	orphaned := make(chan struct{})
	parent := os.Getppid()
	grandparent := parentOf(parent)
	go func() {
		for range time.Tick(time.Second) {
			if os.Getppid() != parent || parentOf(parent) != grandparent {
				close(orphaned)
				return
			}
		}
	}()
	return orphaned
}

// parentOf is the parent of a process, by the PPid line of its status; 0 where
// that cannot be read.
func parentOf(pid int) int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "PPid:"); ok {
			parent, _ := strconv.Atoi(strings.TrimSpace(value))
			return parent
		}
	}
	return 0
}

// UntilStopped gives a context that ends with the first of Ctrl-C, SIGTERM, the
// end of the terminal and the death of this process's parent.
func UntilStopped() (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	orphaned := Orphaned()
	go func() {
		select {
		case <-ctx.Done():
		case <-orphaned:
			stop()
		}
	}()
	return ctx, stop
}
