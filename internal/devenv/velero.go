package devenv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// veleroVersion is the release that tools/velero pins, and that the program says
// it is.
const veleroVersion = "v1.18.3"

const (
	veleroFlags = "-s -w -X github.com/vmware-tanzu/velero/pkg/buildinfo.Version=" + veleroVersion
	pluginFlags = "-s -w"
)

// VeleroBinaries returns the path of stock Velero and the folder of its S3 plugin,
// built from source once, which takes minutes and needs the Go toolchain and this
// repository. Progress, which may be nil, gets a line whenever something takes
// longer than two seconds.
func VeleroBinaries(ctx context.Context, progress io.Writer) (velero, plugins string, err error) {
	build, err := newSourceBuild("velero", veleroFlags, pluginFlags)
	if err != nil {
		return "", "", fmt.Errorf("find stock Velero: %w", err)
	}
	cache, err := cacheFolder()
	if err != nil {
		return "", "", fmt.Errorf("find stock Velero: %w", err)
	}
	dir, err := cached(ctx, cache, build.name, progress, func(ctx context.Context, into string) error {
		if err := build.program(ctx, "velero", veleroVersion, "github.com/vmware-tanzu/velero/cmd/velero", veleroFlags, into, progress); err != nil {
			return err
		}
		const plugin = "velero-plugin-for-aws"
		return build.program(ctx, plugin, "", "github.com/vmware-tanzu/"+plugin+"/"+plugin, pluginFlags, filepath.Join(into, "plugins"), progress)
	})
	if err != nil {
		return "", "", fmt.Errorf("build stock Velero: %w", err)
	}
	return filepath.Join(dir, "velero"), filepath.Join(dir, "plugins"), nil
}

// VeleroOptions set up a stock Velero.
type VeleroOptions struct {
	// Kubeconfig leads to the cluster, Namespace is where its objects live: both
	// must be there.
	Kubeconfig, Namespace string
	// Credentials is a file with the keys of the object store, as AWS writes it.
	Credentials string
	// Args are further ones of velero server.
	Args []string
	// Progress, if set, gets a line whenever something takes longer than two seconds.
	Progress io.Writer
}

// Velero is a stock Velero server.
type Velero struct {
	binary, kubeconfig, namespace string
	server                        *process
	dir                           *folder
}

// StartVelero makes the definitions of Velero's objects and starts its server,
// which answers to nobody but through those objects. It ends with this process.
func StartVelero(ctx context.Context, opts VeleroOptions) (_ *Velero, err error) {
	binary, plugins, err := VeleroBinaries(ctx, opts.Progress)
	if err != nil {
		return nil, err
	}
	dir, err := newFolder("velero", nil)
	if err != nil {
		return nil, err
	}
	v := &Velero{binary: binary, kubeconfig: opts.Kubeconfig, namespace: opts.Namespace, dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, v.Stop())
		}
	}()
	if _, err := v.Run(ctx, "install", "--crds-only"); err != nil {
		return nil, err
	}
	metrics, err := freePort()
	if err != nil {
		return nil, err
	}
	profiler, err := freePort()
	if err != nil {
		return nil, err
	}
	server := command{
		name: "velero server", path: binary, dir: dir.join("."),
		args: append([]string{
			"server", "--plugin-dir", plugins, "--namespace", opts.Namespace,
			"--metrics-address", fmt.Sprintf("127.0.0.1:%d", metrics), "--profiler-address", fmt.Sprintf("127.0.0.1:%d", profiler),
		}, opts.Args...),
		env: append(v.environment(), "AWS_SHARED_CREDENTIALS_FILE="+opts.Credentials),
	}
	if v.server, err = server.start(dir.join("server.log")); err != nil {
		return nil, err
	}
	return v, nil
}

func (v *Velero) environment() []string {
	return append(os.Environ(), "KUBECONFIG="+v.kubeconfig, "VELERO_NAMESPACE="+v.namespace, "TMPDIR="+v.dir.join("."))
}

// Run runs a command of the velero program to its end and returns what it printed.
func (v *Velero) Run(ctx context.Context, args ...string) (string, error) {
	printed, err := command{
		name: fmt.Sprintf("velero %s", args), path: v.binary, dir: v.dir.join("."), args: args, env: v.environment(),
	}.output(ctx)
	return string(printed), err
}

// PID is the server's, for whoever watches its memory.
func (v *Velero) PID() int { return v.server.cmd.Process.Pid }

// Log is what the server has printed so far.
func (v *Velero) Log() string {
	text, err := os.ReadFile(v.dir.join("server.log"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Stop kills the server and removes its folder.
func (v *Velero) Stop() error {
	var err error
	if v.server != nil {
		err = v.server.stop(syscall.SIGKILL, 10*time.Second)
	}
	return errors.Join(err, v.dir.remove())
}
