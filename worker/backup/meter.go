package backup

import (
	"sync"

	"github.com/berth-backup/berth"
)

// meter counts how far a run has come and reports it. Reports come one at a
// time and never run backwards in items or bytes.
type meter struct {
	mu     sync.Mutex
	now    berth.Progress
	report func(berth.Progress)
}

// expect changes how many objects there are to back up by n.
func (m *meter) expect(n int) { m.move(n, 0, 0) }

// move changes the objects to back up, and counts those done and their bytes.
func (m *meter) move(expected, done int, bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now.TotalItems += expected
	m.now.ItemsBackedUp += done
	m.now.Bytes += bytes
	if m.report != nil {
		m.report(m.now)
	}
}

func (m *meter) progress() berth.Progress {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}
