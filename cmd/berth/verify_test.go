package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/api/client"
)

// berth backup verify says yes to a backup as it was written, and ends with 1 and
// a line for what is not.
func TestVerifyingABackupFromTheCommandLine(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.startServer()
	h.startWorker()
	shop := h.namespace("shop", 3)
	a := h.post("a", shop)
	done := h.awaitPhase(a, berth.PhaseCompleted)
	if done.Artifacts == nil || len(*done.Artifacts) != len(wholeBackup("a"))-1 || done.ItemsByKind == nil || (*done.ItemsByKind)[0] != (client.KindCount{Kind: "v1/ConfigMap", Items: 3}) {
		t.Fatalf("the backup is %+v", done)
	}
	verify := func(name string) (int, string) {
		t.Helper()
		p := startProcess(t, h.environment, "backup", "verify", name)
		return p.awaitEnd(), p.output.String()
	}
	if code, said := verify("a"); code != 0 || !strings.Contains(said, "as it was written: 10 objects") || !strings.Contains(said, "5 items of 3 kinds") {
		t.Errorf("a good backup: %d, %s", code, said)
	}
	archive := filepath.Join(h.data, berth.DefaultCluster, "backups", "a", "a.tar.gz")
	body, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	body = bytes.Clone(body)
	body[len(body)/2] ^= 1
	if err := os.WriteFile(archive, body, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, said := verify("a"); code != 1 || !strings.Contains(said, "a.tar.gz has the SHA-256") || !strings.Contains(said, "not as it was written") {
		t.Errorf("a bad backup: %d, %s", code, said)
	}
	if code, said := verify("none"); code != 1 || !strings.Contains(said, "there is no such backup") {
		t.Errorf("no backup: %d, %s", code, said)
	}
}
