package devenv

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// ControlPlaneBinaries returns the paths of an etcd and a kube-apiserver. It
// takes the first of these: the folder KUBEBUILDER_ASSETS names; what an earlier
// call built or downloaded; a download by setup-envtest, which is given up
// quickly and then not tried again for a day; a build from source, which takes
// minutes once and needs the Go toolchain and this repository. Progress, which
// may be nil, gets a line whenever something takes longer than two seconds.
func ControlPlaneBinaries(ctx context.Context, progress io.Writer) (etcd, apiserver string, err error) {
	dir, err := controlPlaneFolder(ctx, progress)
	if err != nil {
		return "", "", fmt.Errorf("find a Kubernetes API server: %w", err)
	}
	return filepath.Join(dir, "etcd"), filepath.Join(dir, "kube-apiserver"), nil
}

func controlPlaneFolder(ctx context.Context, progress io.Writer) (string, error) {
	if dir := os.Getenv("KUBEBUILDER_ASSETS"); dir != "" {
		if !hasControlPlane(dir) {
			return "", fmt.Errorf("no etcd and kube-apiserver in KUBEBUILDER_ASSETS, %s", dir)
		}
		return filepath.Abs(dir)
	}
	cache, err := cacheFolder()
	if err != nil {
		return "", err
	}
	// A program that runs outside the repository can still download.
	build, buildErr := newControlPlaneBuild()
	if buildErr == nil {
		if dir := filepath.Join(cache, build.name); hasControlPlane(dir) {
			return dir, nil
		}
	}
	dir, downloadErr := downloadControlPlane(ctx, cache, progress)
	if downloadErr == nil {
		return dir, nil
	}
	if buildErr != nil {
		return "", fmt.Errorf("%w; and %w", downloadErr, buildErr)
	}
	dir, err = cached(ctx, cache, build.name, progress, func(ctx context.Context, into string) error {
		return build.controlPlane(ctx, into, progress)
	})
	if err != nil {
		return "", fmt.Errorf("%w; and %w", downloadErr, err)
	}
	return dir, nil
}

func hasControlPlane(dir string) bool {
	return isFile(filepath.Join(dir, "etcd")) && isFile(filepath.Join(dir, "kube-apiserver"))
}
