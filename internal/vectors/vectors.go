// Package vectors reads the cases of Velero's queue that every statement of
// Berth's rule is held against: Velero's own tests, the example of its design
// document, and edge cases derived from its code. Where Berth answers
// differently on purpose, the case that is read says what Berth's answer is and
// why.
package vectors

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Folder is where the vectors are: BERTH_VECTORS if that is set, else those of
// the repository whose root is named, relative to the test's package.
func Folder(root string) string {
	if folder := os.Getenv("BERTH_VECTORS"); folder != "" {
		return folder
	}
	return filepath.Join(root, "testdata", "vectors")
}

// Case is one cluster's queue and what is done with it.
type Case struct {
	ID, Title string
	// Limit is the cluster's number of concurrent backups, at least 1.
	Limit int
	// Namespaces are all that the cluster has.
	Namespaces []string
	// Backups are in the order in which they were enqueued.
	Backups []Backup
	Steps   []Step
	// Difference says why Berth's answer is not Velero's; empty where it is.
	Difference string
}

// Backup is one that is there before the first step.
type Backup struct {
	Name string
	// Phase is Velero's. The empty one is not enqueued yet.
	Phase string
	// Include and Exclude are the spec's two lists of namespaces.
	Include, Exclude []string
}

// Op is what a step does.
type Op string

const (
	// Enqueue makes a backup of the phase "" Queued.
	Enqueue Op = "enqueue"
	// Evaluate is one dequeue with room for one more, asked whether the subject
	// starts. It counts only if it does: else nothing is admitted.
	Evaluate Op = "evaluate"
	// SetPhase moves the subject on.
	SetPhase Op = "set_phase"
	// Refuse tries to make the case: its state, or a spec in it, cannot be.
	Refuse Op = "refuse"
)

// Step is one thing done, and what is to come of it.
type Step struct {
	Op      Op
	Subject string
	// Phase is the next one of a SetPhase.
	Phase string
	// Expect is empty for a SetPhase and a Refuse.
	Expect Expect
}

// Expect is what a step is to show.
type Expect struct {
	// Phase of the subject after the step.
	Phase string
	// Position of the subject in the queue, from 1; 0 for one that does not wait.
	Position int `json:"queue_position"`
	// OtherPositions are those of some others after the step, by name.
	OtherPositions map[string]int `json:"other_positions"`
	// Why is a label: enqueued, ignored, started, limit_reached, conflict, or
	// earlier_runnable (an earlier one starts instead).
	Why string
}

type fileBackup struct {
	Name, Phase      string
	QueuePosition    int `json:"queue_position"`
	Include, Exclude []string
}

type fileCase struct {
	ID, Title         string
	Limit             int
	ClusterNamespaces []string `json:"cluster_namespaces"`
	Backups           []fileBackup
	Subject           string
	Expect            Expect
	Steps             []Step
}

// Queue reads every queue_*.json of the folder. Cases that Berth answers
// differently are what Berth's answer is. It is an error if there is none.
func Queue(folder string) ([]Case, error) {
	files, err := filepath.Glob(filepath.Join(folder, "queue_*.json"))
	if err != nil {
		return nil, fmt.Errorf("list the vectors of %s: %w", folder, err)
	}
	var cases []Case
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read vectors: %w", err)
		}
		var read []fileCase
		if err := json.Unmarshal(text, &read); err != nil {
			return nil, fmt.Errorf("read the vectors of %s: %w", file, err)
		}
		for _, f := range read {
			cases = append(cases, caseOf(f))
		}
	}
	if len(cases) == 0 {
		return nil, errors.New(folder + " has no vectors of the queue")
	}
	return cases, nil
}

// enqueuedBefore is the order of positions, then of those that are not enqueued
// yet. Equal ones (the design document prints one twice) keep the list's.
func enqueuedBefore(a, b fileBackup) int {
	if (a.Phase == "") != (b.Phase == "") {
		return cmp.Compare(b.Phase, a.Phase)
	}
	return cmp.Compare(a.QueuePosition, b.QueuePosition)
}

func caseOf(f fileCase) Case {
	slices.SortStableFunc(f.Backups, enqueuedBefore)
	c := Case{ID: f.ID, Title: f.Title, Limit: max(1, f.Limit), Namespaces: f.ClusterNamespaces, Steps: f.Steps}
	for _, b := range f.Backups {
		c.Backups = append(c.Backups, Backup{Name: b.Name, Phase: b.Phase, Include: b.Include, Exclude: b.Exclude})
	}
	if f.Subject != "" {
		op := Evaluate
		if f.Expect.Why == "enqueued" {
			op = Enqueue
		}
		c.Steps = []Step{{Op: op, Subject: f.Subject, Expect: f.Expect}}
	}
	if d, differs := differences[c.ID]; differs {
		c.Difference = d.reason
		d.apply(&c)
	}
	return c
}
