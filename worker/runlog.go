package worker

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/berth-backup/berth"
)

// runLog takes what a run says of itself until it is written to the queue, a
// chunk at a time: bounded, so that a database that is away costs no memory.
type runLog struct {
	mu      sync.Mutex
	pending []byte
	// chunk is the number of the next one to write.
	chunk int
	// accepted and cut are bytes that were told so far: what is kept and what is not.
	accepted, cut int
	// ended says that the last line, which tells what was cut, was added.
	ended bool
}

// Write takes whole lines. It never fails.
func (l *runLog) Write(lines []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut > 0 || l.accepted+len(lines) > berth.MaxLog {
		l.cut += len(lines)
		return len(lines), nil
	}
	l.accepted += len(lines)
	l.pending = append(l.pending, lines...)
	return len(lines), nil
}

// next shows the next chunk, which ends with a line where one fits; false where
// there is none.
func (l *runLog) next() (chunk int, text string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(len(l.pending), berth.MaxLogChunk)
	if line := bytes.LastIndexByte(l.pending[:n], '\n'); line >= 0 {
		n = line + 1
	}
	return l.chunk, string(l.pending[:n]), n > 0
}

// written takes away the chunk that next showed last.
func (l *runLog) written(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending = append([]byte(nil), l.pending[len(text):]...)
	l.chunk++
}

// end adds a line that says what was cut; the object in the store has it whole.
func (l *runLog) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut > 0 && !l.ended {
		l.ended = true
		l.pending = append(l.pending, fmt.Sprintf("[%d bytes more are not kept here; the log in the store has them]\n", l.cut)...)
	}
}
