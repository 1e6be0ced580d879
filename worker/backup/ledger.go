package backup

import "sync"

// ledger is what a run has met of one resource: the key of every object that was
// taken up, and whether it came into the archive. A list that begins again, a
// page that is asked for again, a second selector and a block show objects twice.
type ledger struct {
	resource resource

	mu    sync.Mutex
	taken map[string]bool
}

// take says whether the object of that key is met for the first time.
func (l *ledger) take(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, again := l.taken[key]; again {
		return false
	}
	l.taken[key] = false
	return true
}

func (l *ledger) written(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.taken[key] = true
}

// met says whether the object of that key was taken up.
func (l *ledger) met(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, met := l.taken[key]
	return met
}

// holds says whether the object of that key is in the archive.
func (l *ledger) holds(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.taken[key]
}

// keys are those of the objects in the archive, in no order.
func (l *ledger) keys() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var keys []string
	for key, written := range l.taken {
		if written {
			keys = append(keys, key)
		}
	}
	return keys
}

// ledgers are a run's, one for each resource.
type ledgers struct {
	mu sync.Mutex
	of map[string]*ledger
}

func newLedgers() *ledgers { return &ledgers{of: map[string]*ledger{}} }

func (all *ledgers) ledger(r resource) *ledger {
	all.mu.Lock()
	defer all.mu.Unlock()
	l := all.of[r.String()]
	if l == nil {
		l = &ledger{resource: r, taken: map[string]bool{}}
		all.of[r.String()] = l
	}
	return l
}

// each calls do with the ledger of every resource that the run asked for.
func (all *ledgers) each(do func(*ledger)) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, l := range all.of {
		do(l)
	}
}
