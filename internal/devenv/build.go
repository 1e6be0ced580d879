package devenv

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// kubernetesVersion is the release that tools/controlplane pins, and that the API
// server says it is. A build that is not told takes itself for v0.0.0.
const kubernetesVersion = "v1.36.1"

// The linker's flags. The Go build cache serves any build with the same ones.
const (
	etcdFlags      = "-s -w"
	apiserverFlags = "-s -w" +
		" -X k8s.io/component-base/version.gitVersion=" + kubernetesVersion +
		" -X k8s.io/component-base/version.gitMajor=1" +
		" -X k8s.io/component-base/version.gitMinor=36" +
		" -X k8s.io/client-go/pkg/version.gitVersion=" + kubernetesVersion
)

// sourceBuild builds programs of a module below tools, which pins their sources.
type sourceBuild struct {
	module string // the folder of the module
	name   string // of the folder in the cache: it changes with what is built
}

// newControlPlaneBuild builds etcd and kube-apiserver.
func newControlPlaneBuild() (*sourceBuild, error) {
	return newSourceBuild("controlplane", etcdFlags, apiserverFlags)
}

// newSourceBuild finds a module of tools. It is an error when the working folder is
// not in this repository.
func newSourceBuild(tool string, flags ...string) (*sourceBuild, error) {
	root, err := moduleRoot()
	if err != nil {
		return nil, fmt.Errorf("build one from source: %w", err)
	}
	b := &sourceBuild{module: filepath.Join(root, "tools", tool)}
	hash := sha256.New()
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(b.module, name))
		if err != nil {
			return nil, fmt.Errorf("build one from source: %w", err)
		}
		hash.Write(text)
	}
	what := []any{}
	for _, flag := range flags {
		what = append(what, flag)
	}
	fmt.Fprintln(hash, append(what, runtime.GOOS, runtime.GOARCH)...)
	b.name = tool + "-" + hex.EncodeToString(hash.Sum(nil))[:16]
	return b, nil
}

// moduleRoot returns the folder of Berth's go.mod, which is the working folder or
// one above it.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.Contains(string(text), "module github.com/berth-backup/berth\n") {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("the working folder is not in Berth's repository")
		}
		dir = parent
	}
}

// controlPlane builds both into the folder, the small one first.
func (b *sourceBuild) controlPlane(ctx context.Context, into string, progress io.Writer) error {
	if err := b.program(ctx, "etcd", "", "go.etcd.io/etcd/server/v3", etcdFlags, into, progress); err != nil {
		return err
	}
	return b.program(ctx, "kube-apiserver", kubernetesVersion, "k8s.io/kubernetes/cmd/kube-apiserver", apiserverFlags, into, progress)
}

// program builds one program into the folder.
func (b *sourceBuild) program(ctx context.Context, name, version, pkg, flags, into string, progress io.Writer) error {
	defer announce(progress, strings.TrimSpace("building "+name+" "+version)+" from source, once")()
	goBuild := command{
		name: "go build " + pkg, path: "go", dir: b.module,
		args: []string{"build", "-trimpath", "-ldflags", flags, "-o", filepath.Join(into, name), pkg},
		env:  append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH),
	}
	_, err := goBuild.output(ctx)
	return err
}
