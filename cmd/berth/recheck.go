package main

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"
)

// leastRecheck keeps idle processes from asking all the time.
const leastRecheck = 100 * time.Millisecond

// addRecheckFlag adds how often a process looks at the queue that nobody told it of.
func addRecheckFlag(flags *pflag.FlagSet, interval *time.Duration) {
	flags.DurationVar(interval, "recheck-interval", 2*time.Second, "how often to look at the queue without a hint, 100ms at least")
}

func checkRecheck(interval time.Duration) error {
	if interval < leastRecheck {
		return fmt.Errorf("--recheck-interval must be %s at least", leastRecheck)
	}
	return nil
}
