package vectors

import (
	"os"
	"path/filepath"
	"testing"
)

// Each difference is one of a vector that is there, and says why.
func TestDifferencesAreMet(t *testing.T) {
	t.Parallel()
	cases, err := Queue(filepath.Join("..", "..", "testdata", "vectors"))
	if err != nil {
		t.Fatal(err)
	}
	met := map[string]bool{}
	for _, c := range cases {
		if len(c.Steps) == 0 || c.Limit < 1 {
			t.Errorf("%s: %d steps, limit %d", c.ID, len(c.Steps), c.Limit)
		}
		met[c.ID] = c.Difference != ""
	}
	for id := range differences {
		if !met[id] {
			t.Errorf("%s: no such vector, or no reason", id)
		}
	}
}

// A folder without vectors, and one with something else in it, are errors.
func TestQueueFails(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if cases, err := Queue(folder); err == nil {
		t.Errorf("an empty folder has %d vectors", len(cases))
	}
	if err := os.WriteFile(filepath.Join(folder, "queue_x.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if cases, err := Queue(folder); err == nil {
		t.Errorf("a broken file has %d vectors", len(cases))
	}
}
