package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// curl sends one request as a user would and gives the status and the body.
func curl(ctx context.Context, method, address, body string) (status int, answer []byte, err error) {
	args := []string{"--silent", "--show-error", "--max-time", "30", "--request", method, "--write-out", "\n%{http_code}", address}
	if body != "" {
		args = append(args, "--header", "Content-Type: application/json", "--data", body)
	}
	output, err := exec.CommandContext(ctx, "curl", args...).Output()
	if err != nil {
		if exit, ok := err.(*exec.ExitError); ok {
			return 0, nil, fmt.Errorf("curl %s %s: %s", method, address, strings.TrimSpace(string(exit.Stderr)))
		}
		return 0, nil, fmt.Errorf("curl %s %s: %w", method, address, err)
	}
	cut := strings.LastIndexByte(string(output), '\n')
	status, err = strconv.Atoi(string(output[cut+1:]))
	if err != nil {
		return 0, nil, fmt.Errorf("curl %s %s: read the status: %w", method, address, err)
	}
	return status, output[:cut], nil
}

// get reads one answer into v.
func get(ctx context.Context, address string, v any) error {
	status, answer, err := curl(ctx, "GET", address, "")
	if err != nil {
		return err
	}
	if status != 200 {
		return fmt.Errorf("GET %s: %d %s", address, status, answer)
	}
	if err := json.Unmarshal(answer, v); err != nil {
		return fmt.Errorf("GET %s: %w", address, err)
	}
	return nil
}

// withDatabase is a server's URL with another database.
func withDatabase(server, name string) (string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", fmt.Errorf("read the server's URL: %w", err)
	}
	u.Path = "/" + name
	return u.String(), nil
}

// backupAnswer is what the demo reads of a backup.
type backupAnswer struct {
	ID          string     `json:"id"`
	Name        string     `json:"name"`
	Phase       string     `json:"phase"`
	StartedAt   *time.Time `json:"startedAt"`
	CompletedAt *time.Time `json:"completedAt"`
	Slot        *int       `json:"slot"`
	Progress    *struct {
		ItemsBackedUp int `json:"itemsBackedUp"`
		TotalItems    int `json:"totalItems"`
	} `json:"progress"`
	Queue *struct {
		Position  int `json:"position"`
		BlockedBy []struct {
			Reason string `json:"reason"`
			Backup *struct {
				Name string `json:"name"`
			} `json:"backup"`
			Namespaces []string `json:"namespaces"`
		} `json:"blockedBy"`
	} `json:"queue"`
}

// reason is why a waiting backup waits: the reason, the blocker's name and the
// namespaces that they share.
func (b backupAnswer) reason() (reason, blocker string, shared []string) {
	if b.Queue == nil || len(b.Queue.BlockedBy) == 0 {
		return "", "", nil
	}
	first := b.Queue.BlockedBy[0]
	if first.Backup != nil {
		blocker = first.Backup.Name
	}
	return first.Reason, blocker, first.Namespaces
}

// queueAnswer is what the demo reads of GET /queue.
type queueAnswer struct {
	Running []runningAnswer `json:"running"`
	Waiting []backupAnswer  `json:"waiting"`
}

type runningAnswer struct {
	Slot   int          `json:"slot"`
	Backup backupAnswer `json:"backup"`
}

// line writes a backup of an answer as one line.
func (b backupAnswer) line() string {
	text := fmt.Sprintf("%-8s %-12s", b.Name, b.Phase)
	if b.Slot != nil {
		text += fmt.Sprintf(" slot %d", *b.Slot)
	}
	if b.Progress != nil && b.Progress.TotalItems > 0 {
		text += fmt.Sprintf("  %d of %d items", b.Progress.ItemsBackedUp, b.Progress.TotalItems)
	}
	if reason, blocker, shared := b.reason(); reason != "" {
		text += fmt.Sprintf(" position %d  %s", b.Queue.Position, reason)
		if blocker != "" {
			text += " " + blocker + " (" + strings.Join(shared, ", ") + ")"
		}
	}
	return text
}
