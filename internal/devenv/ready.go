package devenv

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// startAttempts is how often a server is started anew because its port was taken
// between choosing it and listening on it.
const startAttempts = 5

// errPortTaken is wrapped by waitReady's error when the server ended because
// another program had its port.
var errPortTaken = errors.New("port taken")

// waitReady asks probe every interval until it answers nil. It gives up when the
// process ends or ctx does, and then tells what the process printed last.
func waitReady(ctx context.Context, p *process, every time.Duration, probe func(context.Context) error) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		err := probe(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			tail := p.logTail()
			if saysPortTaken(tail) {
				return fmt.Errorf("start %s: %w", p.name, errPortTaken)
			}
			return fmt.Errorf("start %s: ended (%v)\n%s", p.name, p.cmd.ProcessState, tail)
		case <-ctx.Done():
			return fmt.Errorf("start %s: not ready: %w (%w)\n%s", p.name, err, context.Cause(ctx), p.logTail())
		case <-ticker.C:
		}
	}
}

// saysPortTaken tells whether a server's output has the system's words for a port
// that is another's, or Docker's.
func saysPortTaken(output string) bool {
	output = strings.ToLower(output)
	return strings.Contains(output, "address already in use") || strings.Contains(output, "port is already allocated")
}
