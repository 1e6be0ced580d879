package devenv

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// What the tests of this process share, started by the first that asks.
var (
	sharedPostgres   shared[*Postgres]
	sharedPooler     shared[*Pooler]
	sharedKubernetes shared[*Kubernetes]
)

// shared is a server that is started once. A failed start is not tried again: the
// next test would wait as long for the same error.
type shared[T interface{ Stop() error }] struct {
	mu      sync.Mutex
	started bool
	server  T
	err     error
}

func (s *shared[T]) get(start func() (T, error)) (T, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.started {
		s.started = true
		s.server, s.err = start()
	}
	return s.server, s.err
}

func (s *shared[T]) stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.started || s.err != nil {
		return nil
	}
	return s.server.Stop()
}

// RunTests runs a package's tests, stops what they started with TestPostgres,
// TestPooler and TestKubernetes, and returns the exit code. It is all of a TestMain:
//
//	func TestMain(m *testing.M) { os.Exit(devenv.RunTests(m)) }
//
// Every server that was started holds a goroutine until then. A test that looks
// for leaked ones asks for its servers first and ignores those there are.
func RunTests(m *testing.M) int {
	code := m.Run()
	for _, stop := range []func() error{sharedKubernetes.stop, sharedPooler.stop, sharedPostgres.stop} {
		if err := stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	return code
}

// TestPostgres returns the Postgres that all tests of this process share, and
// starts it for the first that asks. The test fails when there is none to be had.
func TestPostgres(tb testing.TB) *Postgres {
	tb.Helper()
	pg, err := sharedPostgres.get(func() (*Postgres, error) {
		// Not the test's context: the server outlives the test.
		return StartPostgres(context.Background(), PostgresOptions{Progress: os.Stderr})
	})
	if err != nil {
		tb.Fatal(err)
	}
	return pg
}

// TestPooler returns the pooler in front of the Postgres that all tests of this
// process share, and starts it for the first that asks. The test fails when there
// is no pgbouncer.
func TestPooler(tb testing.TB, pg *Postgres) *Pooler {
	tb.Helper()
	pooler, err := sharedPooler.get(func() (*Pooler, error) { return StartPooler(context.Background(), pg) })
	if err != nil {
		tb.Fatal(err)
	}
	return pooler
}

// TestKubernetes returns the Kubernetes API that all tests of this process share,
// and starts it for the first that asks. The test fails when there is none to be
// had. Where it has to be built from source, that may take longer than go test
// lets a package run: the command in the folder run has no such limit.
func TestKubernetes(tb testing.TB) *Kubernetes {
	tb.Helper()
	k, err := sharedKubernetes.get(func() (*Kubernetes, error) {
		return StartKubernetes(context.Background(), KubernetesOptions{Progress: os.Stderr})
	})
	if err != nil {
		tb.Fatal(err)
	}
	return k
}

// TestNamespace makes a namespace whose name begins with prefix and no other has,
// and returns the name. The namespace goes when the test ends; what is in it
// stays in the API server, where lists over all namespaces still show it.
func TestNamespace(tb testing.TB, k *Kubernetes, prefix string) string {
	tb.Helper()
	return TestNamespaceLabelled(tb, k, prefix, nil)
}

// TestNamespaceLabelled is TestNamespace for a namespace that has labels from the
// first moment.
func TestNamespaceLabelled(tb testing.TB, k *Kubernetes, prefix string, labels map[string]string) string {
	tb.Helper()
	client, err := kubernetes.NewForConfig(k.Config)
	if err != nil {
		tb.Fatal(err)
	}
	name := prefix + "-" + strings.ToLower(rand.Text()[:10])
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	if _, err := client.CoreV1().Namespaces().Create(tb.Context(), namespace, metav1.CreateOptions{}); err != nil {
		tb.Fatalf("make a namespace: %v", err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := removeNamespace(ctx, client, name); err != nil {
			tb.Errorf("remove namespace %s: %v", name, err)
		}
	})
	return name
}

// removeNamespace deletes the namespace and does what is left to the namespace
// controller elsewhere: it takes the finalizer off, without which a deleted
// namespace stays Terminating. A test may have deleted the namespace itself.
func removeNamespace(ctx context.Context, client kubernetes.Interface, name string) error {
	namespaces := client.CoreV1().Namespaces()
	if err := namespaces.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return ignoreGone(err)
	}
	namespace, err := namespaces.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return ignoreGone(err)
	}
	namespace.Spec.Finalizers = nil
	_, err = namespaces.Finalize(ctx, namespace, metav1.UpdateOptions{})
	return ignoreGone(err)
}

func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
