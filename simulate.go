package berth

import "github.com/google/uuid"

// WhatIf is a change that is only thought of.
type WhatIf struct {
	// Add are backups that are submitted now. One without a phase is New where it
	// is not due yet, else Queued; one without an OrderKey or a Seq is put at the
	// end. Its ID tells it apart.
	Add []Standing
	// Cancel are waiting or running backups that are gone.
	Cancel []uuid.UUID
	// ConcurrentBackups is another limit; nil: the same.
	ConcurrentBackups *int
}

// With is the queue after a change; s stays as it is.
func (s Snapshot) With(change WhatIf) Snapshot {
	canceled := make(map[uuid.UUID]bool, len(change.Cancel))
	for _, id := range change.Cancel {
		canceled[id] = true
	}
	var backups []Standing
	last := int64(0)
	for _, b := range s.Backups {
		last = max(last, b.Seq)
		if !canceled[b.ID] {
			backups = append(backups, b)
		}
	}
	for _, b := range change.Add {
		last++
		backups = append(backups, s.submitted(b, last))
	}
	s.Backups = backups
	if change.ConcurrentBackups != nil {
		s.ConcurrentBackups = *change.ConcurrentBackups
	}
	return s
}

// submitted is b as it would enter the queue now.
func (s Snapshot) submitted(b Standing, seq int64) Standing {
	if b.Phase == "" {
		b.Phase = PhaseQueued
		if b.Due().After(s.At) {
			b.Phase = PhaseNew
		}
	}
	if b.OrderKey.IsZero() {
		b.OrderKey = OrderKey(s.At, b.NotBefore, 0)
	}
	if b.Seq == 0 {
		b.Seq = seq
	}
	return b
}
