package devenv

import (
	"fmt"
	"io"
	"time"
)

// Waits are announced after progressAfter and then every progressEvery.
const (
	progressAfter = 2 * time.Second
	progressEvery = 10 * time.Second
)

// announce writes "what: 12s …" to w for as long as the wait takes: nothing when
// it is over within two seconds. The returned function ends it. A nil w gets
// nothing.
func announce(w io.Writer, what string) (end func()) {
	if w == nil {
		return func() {}
	}
	begin := time.Now()
	over, written := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(written)
		timer := time.NewTimer(progressAfter)
		defer timer.Stop()
		for {
			select {
			case <-over:
				return
			case <-timer.C:
				fmt.Fprintf(w, "%s: %s …\n", what, time.Since(begin).Round(time.Second))
				timer.Reset(progressEvery)
			}
		}
	}()
	return func() {
		close(over)
		<-written
	}
}
