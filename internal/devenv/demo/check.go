package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// span is one run, from its admission to its end, by the events.
type span struct {
	name       string
	start, end time.Time
}

// check holds what the example promises against what was seen, logged and
// mirrored; it says each promise as it finds it kept.
func check(ctx context.Context, s *setup, o observations) error {
	runs, err := readRuns(ctx, s.databaseURL)
	if err != nil {
		return err
	}
	var broken []error
	promise := func(kept bool, format string, args ...any) {
		mark := "ok  "
		if !kept {
			mark = "NOT "
			broken = append(broken, fmt.Errorf("broken: "+format, args...))
		}
		say("  %s %s", mark, fmt.Sprintf(format, args...))
	}
	for _, w := range []struct{ name, reason string }{
		{"backup2", "RunningOverlap backup1 ns2"},
		{"backup3", "EarlierQueuedOverlap backup2 ns3"},
		{"backup4", "EarlierQueuedOverlap backup2 ns5"},
	} {
		_, seen := o.waited[w.name][w.reason]
		promise(seen, "%s was seen Queued with its true blocker: %s", w.name, w.reason)
	}
	for _, b := range submitted {
		for _, reason := range slices.Sorted(maps.Keys(o.waited[b.name])) {
			promise(!o.waited[b.name][reason] && truly(b.name, reason), "%s waited for a reason that is true: %s", b.name, reason)
		}
	}
	promise(o.together["backup1+backup5"], "1 and 5 were seen running together")

	byName := map[string]span{}
	for _, r := range runs {
		byName[r.name] = r
	}
	promise(len(runs) == len(submitted) && len(byName) == len(submitted), "each of the five ran once")
	if len(byName) != len(submitted) {
		return errors.Join(broken...)
	}
	slices.SortFunc(runs, func(a, b span) int { return a.start.Compare(b.start) })
	first := []string{runs[0].name, runs[1].name}
	slices.Sort(first)
	promise(slices.Equal(first, []string{"backup1", "backup5"}), "the first two to start were 1 and 5: %s", strings.Join(first, ", "))
	after := func(later, earlier string) {
		promise(byName[later].start.After(byName[earlier].end), "%s started after %s ended", later, earlier)
	}
	after("backup2", "backup1")
	after("backup3", "backup2")
	after("backup4", "backup2")
	for i, a := range submitted {
		promise(byName[a.name].end.After(byName[a.name].start), "%s ran for %s", a.name, byName[a.name].end.Sub(byName[a.name].start).Round(time.Millisecond))
		for _, b := range submitted[i+1:] {
			if shared := intersection(a.namespaces, b.namespaces); len(shared) > 0 {
				apart := !byName[a.name].start.Before(byName[b.name].end) || !byName[b.name].start.Before(byName[a.name].end)
				promise(apart, "%s and %s share %s and never ran together", a.name, b.name, strings.Join(shared, ", "))
			}
		}
	}
	for _, b := range submitted {
		promise(o.final[b.name].Phase == "Completed", "%s is Completed: %s", b.name, o.final[b.name].Phase)
	}
	return errors.Join(append(broken, checkObjects(ctx, s.cluster, o, promise))...)
}

// bearsOut says whether the rest of an answer agrees with what it says of one
// waiting backup.
func (q queueAnswer) bearsOut(b backupAnswer) bool {
	reason, blocker, _ := b.reason()
	running := slices.ContainsFunc(q.Running, func(r runningAnswer) bool { return r.Backup.Name == blocker })
	queuedAhead := slices.ContainsFunc(q.Waiting, func(w backupAnswer) bool {
		return w.Name == blocker && w.Queue.Position < b.Queue.Position
	})
	switch reason {
	case "NoWorker":
		return len(q.Running) == 0
	case "NoFreeSlot":
		return len(q.Running) >= limit
	case "Dispatch":
		return len(q.Running) < limit
	case "RunningOverlap":
		return running
	case "EarlierQueuedOverlap":
		return queuedAhead
	}
	return false
}

// truly says whether a reason that was seen can be true by the example itself.
func truly(name, reason string) bool {
	words := strings.Fields(reason)
	switch {
	case len(words) == 1:
		return slices.Contains([]string{"NoWorker", "NoFreeSlot", "Dispatch"}, words[0])
	case len(words) == 3:
		shared := intersection(namespacesOf(name), namespacesOf(words[1]))
		return words[1] < name && strings.Join(shared, ",") == words[2]
	}
	return false
}

func namespacesOf(name string) []string {
	for _, b := range submitted {
		if b.name == name {
			return b.namespaces
		}
	}
	return nil
}

func intersection(a, b []string) []string {
	var shared []string
	for _, n := range a {
		if slices.Contains(b, n) {
			shared = append(shared, n)
		}
	}
	slices.Sort(shared)
	return shared
}

// readRuns reads each run of the five from the event table.
func readRuns(ctx context.Context, databaseURL string) ([]span, error) {
	conn, err := pgx.Connect(ctx, databaseURL)
	if err != nil {
		return nil, fmt.Errorf("read the events: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	rows, err := conn.Query(ctx, `
		SELECT b.name, started.at, ended.at
		  FROM events started
		  JOIN events ended ON ended.seq = started.seq AND ended.fence = started.fence
		   AND ended.to_phase IN ('Completed', 'PartiallyFailed', 'Failed', 'FailedValidation', 'Canceled', 'Queued')
		  JOIN backups b ON b.seq = started.seq
		 WHERE started.to_phase = 'ReadyToStart' AND b.name LIKE 'backup_'`)
	if err != nil {
		return nil, fmt.Errorf("read the events: %w", err)
	}
	runs, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (span, error) {
		var s span
		return s, row.Scan(&s.name, &s.start, &s.end)
	})
	if err != nil {
		return nil, fmt.Errorf("read the events: %w", err)
	}
	return runs, nil
}
