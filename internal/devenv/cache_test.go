package devenv

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

func TestCachedFillsOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var fills atomic.Int32
	fill := func(_ context.Context, into string) error {
		fills.Add(1)
		return os.WriteFile(filepath.Join(into, "file"), nil, 0o600)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			path, err := cached(t.Context(), dir, "name", nil, fill)
			if err != nil || !isFile(filepath.Join(path, "file")) {
				t.Errorf("cached = %q, %v, or it is not filled", path, err)
			}
		})
	}
	all.Wait()
	if n := fills.Load(); n != 1 {
		t.Errorf("filled %d times", n)
	}
}

func TestCachedKeepsNothingHalfFilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	broken := errors.New("broken")
	_, err := cached(t.Context(), dir, "name", nil, func(_ context.Context, into string) error {
		return errors.Join(os.WriteFile(filepath.Join(into, "file"), nil, 0o600), broken)
	})
	if !errors.Is(err, broken) {
		t.Errorf("cached = %v", err)
	}
	path, err := cached(t.Context(), dir, "name", nil, func(context.Context, string) error { return nil })
	if err != nil || isFile(filepath.Join(path, "file")) {
		t.Errorf("second try: %q, %v, or it has the first one's file", path, err)
	}
}
