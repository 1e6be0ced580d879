package backup

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"log/slog"
	"sync"
)

// runLog holds the log of one run, compressed, until it goes to the store.
type runLog struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	gzip *gzip.Writer
	slog *slog.Logger
}

func newRunLog() *runLog {
	l := &runLog{}
	l.gzip = gzip.NewWriter(&l.buf)
	l.slog = slog.New(slog.NewTextHandler(l, nil))
	return l
}

// Write takes a line from the log's handler.
func (l *runLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gzip.Write(line)
}

func (l *runLog) info(text string, attributes ...any)    { l.slog.Info(text, attributes...) }
func (l *runLog) warning(text string, attributes ...any) { l.slog.Warn(text, attributes...) }
func (l *runLog) error(text string, attributes ...any)   { l.slog.Error(text, attributes...) }

// writeTo writes the whole log, compressed. Nothing can be logged after it.
func (l *runLog) writeTo(w io.Writer) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.gzip.Close()
	_, writeErr := w.Write(l.buf.Bytes())
	return errors.Join(err, writeErr)
}
