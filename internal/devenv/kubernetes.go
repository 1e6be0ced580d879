package devenv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// KubernetesOptions says which Kubernetes API to take. The zero value is an empty
// one of its own.
type KubernetesOptions struct {
	// Kubeconfig is the path of a kubeconfig whose current context is used as it
	// is; nothing is started. Default: BERTH_KUBECONFIG, else one is started.
	Kubeconfig string

	// APIServerArgs are further arguments of kube-apiserver; they win over the
	// package's own.
	APIServerArgs []string

	// Progress gets a line whenever something takes longer than two seconds.
	// Default: none.
	Progress io.Writer
}

// Kubernetes is a running API server.
type Kubernetes struct {
	Kubeconfig string // a path; the file goes with Stop when it was made here

	// Config is what the kubeconfig says, of a user who may do everything when
	// the server was started here. The client sets itself no limit on requests.
	// It is shared: copy it before changing it.
	Config *rest.Config

	stop func() error
	once sync.Once
	err  error
}

// StartKubernetes returns a Kubernetes API that answers and has the namespaces
// default and kube-system. It takes the first of these: the one the options or
// BERTH_KUBECONFIG name, in which case nothing is started or stopped; a
// kube-apiserver and an etcd from where ControlPlaneBinaries finds them, on free
// ports of 127.0.0.1.
//
// What is started is the API alone: no controller and no kubelet runs, so
// nothing makes service accounts, runs pods or empties deleted namespaces. It is
// an error when the API is not ready within two minutes of being started.
func StartKubernetes(ctx context.Context, opts KubernetesOptions) (*Kubernetes, error) {
	path := opts.Kubeconfig
	if path == "" {
		path = os.Getenv("BERTH_KUBECONFIG")
	}
	if path != "" {
		k, err := namedKubernetes(ctx, path)
		if err != nil {
			return nil, fmt.Errorf("use the Kubernetes of %s: %w", path, err)
		}
		return k, nil
	}
	etcd, apiserver, err := ControlPlaneBinaries(ctx, opts.Progress)
	if err != nil {
		return nil, err
	}
	return startControlPlane(ctx, etcd, apiserver, opts)
}

// Stop ends the API server and its etcd, waits until both have ended and removes
// their folder. It does nothing to a server that was not started here, and
// nothing the second time.
func (k *Kubernetes) Stop() error {
	k.once.Do(func() {
		if k.stop != nil {
			k.err = k.stop()
		}
	})
	return k.err
}

func namedKubernetes(ctx context.Context, path string) (*Kubernetes, error) {
	k, err := readKubeconfig(path)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	return k, k.ready(ctx)
}

func readKubeconfig(path string) (*Kubernetes, error) {
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return &Kubernetes{Kubeconfig: path, Config: config}, nil
}

// startControlPlane starts etcd, then kube-apiserver on it.
func startControlPlane(ctx context.Context, etcd, apiserver string, opts KubernetesOptions) (_ *Kubernetes, err error) {
	defer announce(opts.Progress, "starting kube-apiserver")()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	dir, err := newFolder("kubernetes", nil)
	if err != nil {
		return nil, err
	}
	cleanup := []func() error{dir.remove} // to be done in reverse
	stop := func() error {
		var errs []error
		for i := len(cleanup) - 1; i >= 0; i-- {
			errs = append(errs, cleanup[i]())
		}
		return errors.Join(errs...)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, stop())
		}
	}()

	store, endpoint, err := startEtcd(ctx, etcd, dir)
	if err != nil {
		return nil, err
	}
	cleanup = append(cleanup, store.end)
	server, k, err := startAPIServer(ctx, apiserver, endpoint, dir, opts.APIServerArgs)
	if err != nil {
		return nil, err
	}
	cleanup = append(cleanup, server.end)
	k.stop = stop
	return k, nil
}

// end kills the server: nothing of what it holds is kept, and an orderly end of
// kube-apiserver waits for every open watch.
func (p *process) end() error { return p.stop(syscall.SIGKILL, 10*time.Second) }

// ready asks whether the API serves and has made its first namespaces, which is
// some time after it began to serve.
func (k *Kubernetes) ready(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(k.Config)
	if err != nil {
		return err
	}
	if err := client.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
		return fmt.Errorf("/readyz: %w", err)
	}
	for _, name := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem} {
		if _, err := client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
	}
	return nil
}
