package berth

import "time"

// QueueSettings are a cluster's limits and its pause.
type QueueSettings struct {
	Cluster string
	// ConcurrentBackups is how many backups may run at once; 1 by default.
	ConcurrentBackups int
	// ItemBlockWorkerCount is how many workers the pool of each running backup
	// has; 1 by default. A backup keeps the number that it was admitted with.
	ItemBlockWorkerCount int
	// MaxQueued is how many backups may wait, New ones included; 0 by default,
	// which is any number.
	MaxQueued int
	// Paused is nil unless nothing may be admitted now.
	Paused *Pause
	// Version moves with every change of the settings and of the pause.
	Version int64
}

// Pause says that nothing is admitted, and why.
type Pause struct {
	Reason, By string
	Since      time.Time
	// Until, if set, is when it ends by itself.
	Until *time.Time
}

// SettingsChange is what changes of a cluster's settings; nil fields stay.
type SettingsChange struct {
	ConcurrentBackups, ItemBlockWorkerCount *int
	// MaxQueued of 0 takes the cap away.
	MaxQueued *int
	// IfVersion, if set, is the version that the change was made for: with
	// another one it is CodePreconditionFailed.
	IfVersion *int64
}

// Validate lists what is wrong with a change, its pointers relative to it.
func (c SettingsChange) Validate() []FieldError {
	var problems []FieldError
	within := func(pointer string, value *int, least, most int) {
		if value != nil && (*value < least || *value > most) {
			problems = append(problems, outOfRange(pointer, least, most))
		}
	}
	within("/concurrentBackups", c.ConcurrentBackups, 1, MaxConcurrentBackups)
	within("/itemBlockWorkerCount", c.ItemBlockWorkerCount, 1, MaxItemBlockWorkerCount)
	const most = 1_000_000
	within("/maxQueued", c.MaxQueued, 0, most)
	return problems
}

// PauseRequest asks that nothing be admitted from now on.
type PauseRequest struct {
	Reason, By string
	// Until, if set, ends the pause by itself.
	Until *time.Time
}

// Validate lists what is wrong with a pause that is asked for at some time, its
// pointers relative to it.
func (p PauseRequest) Validate(now time.Time) []FieldError {
	if problems := TimeProblems("/until", p.Until); len(problems) > 0 {
		return problems
	}
	if p.Until != nil && !p.Until.After(now) {
		return []FieldError{{Pointer: "/until", Code: "invalid", Detail: "must be in the future"}}
	}
	return nil
}
