package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// submitted are the five backups of the example in the order in which they are
// sent (velero, design/Implemented/concurrent-backup-processing.md).
var submitted = []struct {
	name       string
	namespaces []string
}{
	{"backup1", []string{"ns1", "ns2"}},
	{"backup2", []string{"ns2", "ns3", "ns5"}},
	{"backup3", []string{"ns4", "ns3"}},
	{"backup4", []string{"ns5", "ns6"}},
	{"backup5", []string{"ns8", "ns9"}},
}

// example runs the five backups and checks what came of them.
func example(ctx context.Context, s *setup) error {
	say("\nSample namespaces ns1 … ns9: creating what is in them")
	if err := s.createSamples(ctx, heavyFirst); err != nil {
		return err
	}
	say("\nFive backups, sent with curl; no worker runs")
	ids, err := submit(ctx, s.url)
	if err != nil {
		return err
	}
	say("\nberth worker starts, two backups at once; the queue as GET /queue and GET /backups/{id} answer")
	if err := s.startWorker(ctx); err != nil {
		return err
	}
	seen, err := watch(ctx, s.url, ids)
	if err != nil {
		return err
	}
	say("\nChecking answers, events and Backup objects")
	if err := check(ctx, s, seen); err != nil {
		return err
	}
	if err := listArchive(ctx, s.data, "backup5"); err != nil {
		return err
	}
	if err := printObjects(ctx, s.cluster); err != nil {
		return err
	}
	say("\nAll of it held.")
	return nil
}

// submit posts the backups and sees each wait for a worker.
func submit(ctx context.Context, url string) (ids map[string]string, err error) {
	ids = map[string]string{}
	for _, b := range submitted {
		body, err := json.Marshal(map[string]any{"name": b.name, "spec": map[string]any{"includedNamespaces": b.namespaces}})
		if err != nil {
			return nil, err
		}
		say("  curl -d '%s' %s/backups", body, url)
		status, answer, err := curl(ctx, "POST", url+"/backups", string(body))
		if err != nil {
			return nil, err
		}
		if status != 201 {
			return nil, fmt.Errorf("POST /backups answered %d: %s", status, answer)
		}
		var created backupAnswer
		if err := json.Unmarshal(answer, &created); err != nil {
			return nil, fmt.Errorf("read the answer of POST /backups: %w", err)
		}
		ids[b.name] = created.ID
	}
	for i, b := range submitted {
		var waiting backupAnswer
		if err := get(ctx, url+"/backups/"+ids[b.name], &waiting); err != nil {
			return nil, err
		}
		say("  %s", waiting.line())
		if reason, _, _ := waiting.reason(); waiting.Phase != "Queued" || reason != "NoWorker" || waiting.Queue.Position != i+1 {
			return nil, fmt.Errorf("%s should be Queued at position %d with the reason NoWorker: %s", b.name, i+1, waiting.line())
		}
	}
	return ids, nil
}

// observations are what the answers showed while the queue moved.
type observations struct {
	// waited holds, for each backup, every reason that it was seen to wait for,
	// as "Reason blocker shared,namespaces", and whether an answer that gave it
	// also showed that it was false.
	waited map[string]map[string]bool
	// together holds each pair of backups that one answer showed InProgress, as "a+b".
	together map[string]bool
	// final is the last answer of GET /backups/{id}.
	final map[string]backupAnswer
}

func (o observations) note(q queueAnswer) {
	for _, b := range q.Waiting {
		reason, blocker, shared := b.reason()
		if o.waited[b.Name] == nil {
			o.waited[b.Name] = map[string]bool{}
		}
		text := strings.TrimSpace(reason + " " + blocker + " " + strings.Join(shared, ","))
		o.waited[b.Name][text] = o.waited[b.Name][text] || !q.bearsOut(b)
	}
	for _, a := range q.Running {
		for _, b := range q.Running {
			if a.Backup.Name < b.Backup.Name && a.Backup.Phase == "InProgress" && b.Backup.Phase == "InProgress" {
				o.together[a.Backup.Name+"+"+b.Backup.Name] = true
			}
		}
	}
}

// watch reads the queue until all five have ended and prints each change.
func watch(ctx context.Context, url string, ids map[string]string) (observations, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	o := observations{waited: map[string]map[string]bool{}, together: map[string]bool{}, final: map[string]backupAnswer{}}
	printed := map[string]string{}
	show := func(b backupAnswer) {
		if line := b.line(); printed[b.Name] != line {
			printed[b.Name] = line
			say("  %s  %s", time.Now().Format("15:04:05.000"), line)
		}
	}
	for {
		var q queueAnswer
		if err := get(ctx, url+"/queue", &q); err != nil {
			return o, err
		}
		o.note(q)
		active := map[string]bool{}
		for _, r := range q.Running {
			active[r.Backup.Name] = true
			show(r.Backup)
		}
		for _, b := range q.Waiting {
			active[b.Name] = true
			show(b)
		}
		for _, b := range submitted {
			if _, ended := o.final[b.name]; ended || active[b.name] {
				continue
			}
			var final backupAnswer
			if err := get(ctx, url+"/backups/"+ids[b.name], &final); err != nil {
				return o, err
			}
			show(final)
			if final.CompletedAt != nil {
				o.final[b.name] = final
			}
		}
		if len(o.final) == len(submitted) {
			return o, nil
		}
		select {
		case <-ctx.Done():
			return o, fmt.Errorf("the backups did not end: %w", ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}
