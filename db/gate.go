package db

import "time"

// ObserveGates has observe called with how long each transaction held its
// dispatch gate: from the LOCK's return to that of COMMIT or ROLLBACK. It is to
// be called before the store is used; observe is called by many at once.
func (s *Store) ObserveGates(observe func(held time.Duration)) { s.gateHeld = observe }
