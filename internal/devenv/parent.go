package devenv

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Orphaned gives a channel that is closed once this process's parent has died:
// `go run` and make, when they are killed, take nobody along.
func Orphaned() <-chan struct{} {
	orphaned := make(chan struct{})
	parent := os.Getppid()
	go func() {
		for range time.Tick(time.Second) {
			if os.Getppid() != parent {
				close(orphaned)
				return
			}
		}
	}()
	return orphaned
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
