package devenv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// What setup-envtest is, which release of Kubernetes it is to fetch, and for how
// long its failure is remembered.
const (
	setupEnvtest        = "sigs.k8s.io/controller-runtime/tools/setup-envtest@v0.25.1"
	envtestVersion      = "1.36.x"
	envtestFailureLasts = 24 * time.Hour
)

// downloadControlPlane returns a folder with an etcd and a kube-apiserver that
// setup-envtest downloaded into the cache folder, now or earlier. Where its index
// does not answer within seconds, that is remembered.
func downloadControlPlane(ctx context.Context, cache string, progress io.Writer) (string, error) {
	into := filepath.Join(cache, "envtest")
	found, _ := filepath.Glob(filepath.Join(into, "k8s", "*"))
	for _, dir := range found {
		if hasControlPlane(dir) {
			return dir, nil
		}
	}
	failure := filepath.Join(cache, "envtest.failed")
	if text, err := os.ReadFile(failure); err == nil && !olderThan(failure, envtestFailureLasts) {
		return "", errors.New(string(text))
	}
	dir, err := runSetupEnvtest(ctx, into, progress)
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("download one: %w", err)
		_ = os.WriteFile(failure, []byte(err.Error()), 0o644) // at worst it is tried again
	}
	return dir, err
}

// runSetupEnvtest installs the tool, asks whether its index is in reach, and only
// then lets it download, which may take minutes.
func runSetupEnvtest(ctx context.Context, into string, progress io.Writer) (string, error) {
	defer announce(progress, "trying to download kube-apiserver")()
	install := command{
		name: "go install setup-envtest", path: "go", args: []string{"install", setupEnvtest}, dir: os.TempDir(),
		env: append(os.Environ(), "GOBIN="+into, "GOWORK=off", "GOOS=", "GOARCH="),
	}
	if _, err := outputWithin(ctx, time.Minute, install); err != nil {
		return "", err
	}
	tool := filepath.Join(into, "setup-envtest")
	list := command{name: "setup-envtest list", path: tool, args: []string{"list", envtestVersion, "--bin-dir", into}}
	if _, err := outputWithin(ctx, 15*time.Second, list); err != nil {
		return "", err
	}
	use := command{name: "setup-envtest use", path: tool, args: []string{"use", envtestVersion, "--bin-dir", into, "--print", "path"}}
	out, err := outputWithin(ctx, 5*time.Minute, use)
	if err != nil {
		return "", err
	}
	dir := strings.TrimSpace(string(out))
	if !hasControlPlane(dir) {
		return "", fmt.Errorf("setup-envtest use: no etcd and kube-apiserver in %q", dir)
	}
	return dir, nil
}

// outputWithin runs the program and kills it when it takes longer than limit.
func outputWithin(ctx context.Context, limit time.Duration, c command) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %s", limit))
	defer cancel()
	return c.output(ctx)
}

func olderThan(path string, age time.Duration) bool {
	info, err := os.Stat(path)
	return err == nil && time.Since(info.ModTime()) > age
}
