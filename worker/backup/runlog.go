package backup

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
)

// runLog holds the log of one run, compressed, until it goes to the store, and
// passes its lines on to whoever reads them meanwhile.
type runLog struct {
	also io.Writer
	mu   sync.Mutex
	buf  bytes.Buffer
	gzip *gzip.Writer
	// closed says that the log has gone to the store.
	closed bool
	slog   *slog.Logger
}

func newRunLog(also io.Writer) *runLog {
	l := &runLog{also: also}
	l.gzip = gzip.NewWriter(&l.buf)
	l.slog = slog.New(slog.NewTextHandler(l, nil))
	return l
}

// Write takes a line from the log's handler.
func (l *runLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.also != nil {
		if _, err := l.also.Write(line); err != nil {
			return 0, err
		}
	}
	if l.closed {
		return len(line), nil
	}
	return l.gzip.Write(line)
}

// failure says why the attempt ended; of a panic the stack follows as it is.
func (l *runLog) failure(err error) {
	text, stack, _ := strings.Cut(err.Error(), "\n\n")
	l.error("attempt ended", "error", text)
	if stack != "" {
		_, _ = l.Write([]byte(strings.TrimSpace(stack) + "\n")) // what takes lines does not fail
	}
}

func (l *runLog) info(text string, attributes ...any)    { l.slog.Info(text, attributes...) }
func (l *runLog) warning(text string, attributes ...any) { l.slog.Warn(text, attributes...) }
func (l *runLog) error(text string, attributes ...any)   { l.slog.Error(text, attributes...) }

// writeTo writes the whole log, compressed. What is logged after it is only passed
// on.
func (l *runLog) writeTo(w io.Writer) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	err := l.gzip.Close()
	_, writeErr := w.Write(l.buf.Bytes())
	return errors.Join(err, writeErr)
}
