package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-backup/berth/internal/devenv"
)

// limit is how many backups of the example run at once.
const limit = 2

// setup is what the example runs on.
type setup struct {
	// url is that of Berth's API, without a slash at its end.
	url         string
	databaseURL string
	kubeconfig  string
	cluster     *rest.Config
	// data is the folder of the default storage location.
	data string
	// samples says that the sample namespaces are the demo's own.
	samples bool
	// startWorker starts berth worker with the example's limit.
	startWorker func(ctx context.Context) error

	stops []func() error
}

func (s *setup) onStop(stop func() error) { s.stops = append(s.stops, stop) }

// stop ends everything that was started, the last first.
func (s *setup) stop() error {
	var failures []error
	for i := len(s.stops) - 1; i >= 0; i-- {
		failures = append(failures, s.stops[i]())
	}
	s.stops = nil
	return errors.Join(failures...)
}

// startLocal gets a Postgres and a Kubernetes API, builds berth and starts its
// server.
func startLocal(ctx context.Context) (_ *setup, err error) {
	s := &setup{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	folder, remove, err := devenv.TemporaryFolder("demo")
	if err != nil {
		return nil, err
	}
	s.onStop(remove)
	s.data = filepath.Join(folder, "data")

	binary := filepath.Join(folder, "berth")
	built := make(chan error, 1)
	go func() { built <- build(ctx, binary) }()
	err = s.startServers(ctx)
	if err := errors.Join(err, <-built); err != nil {
		return nil, err
	}
	if err := prepareCluster(ctx, s.cluster); err != nil {
		return nil, err
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	s.url = "http://" + address
	environment := []string{"BERTH_DATABASE_URL=" + s.databaseURL, "BERTH_DATA=" + s.data}
	if err := s.startProcess(binary, folder, environment, "server", "--listen", address); err != nil {
		return nil, err
	}
	s.startWorker = func(context.Context) error {
		return s.startProcess(binary, folder, environment, "worker", "--kubeconfig", s.kubeconfig,
			"--concurrent-backups", fmt.Sprint(limit))
	}
	return s, s.awaitServer(ctx)
}

func (s *setup) startServers(ctx context.Context) error {
	type started[T any] struct {
		server T
		err    error
	}
	postgres := make(chan started[*devenv.Postgres], 1)
	go func() {
		pg, err := devenv.StartPostgres(ctx, devenv.PostgresOptions{Durable: true, Progress: os.Stderr})
		postgres <- started[*devenv.Postgres]{pg, err}
	}()
	kubernetes, kubernetesErr := devenv.StartKubernetes(ctx, devenv.KubernetesOptions{Progress: os.Stderr})
	if kubernetesErr == nil {
		s.onStop(kubernetes.Stop)
		s.kubeconfig, s.cluster = kubernetes.Kubeconfig, kubernetes.Config
		if os.Getenv("BERTH_KUBECONFIG") != "" {
			s.onStop(func() error { return s.removeSamples() })
		}
	}
	pg := <-postgres
	if pg.err != nil {
		return errors.Join(kubernetesErr, pg.err)
	}
	s.onStop(pg.server.Stop)
	if kubernetesErr != nil {
		return kubernetesErr
	}
	return s.makeDatabase(ctx, pg.server.URL)
}

// removeSamples removes what the demo made in a cluster that is not its own.
func (s *setup) removeSamples() error {
	if !s.samples {
		return nil
	}
	return removeSamples(s.cluster)
}

// build compiles berth, and says so if it takes long.
func build(ctx context.Context, into string) error {
	done := make(chan struct{})
	defer close(done)
	go func() {
		started := time.Now()
		tick := time.NewTicker(2 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				fmt.Fprintf(os.Stderr, "building berth: %s\n", time.Since(started).Round(time.Second))
				tick.Reset(10 * time.Second)
			}
		}
	}()
	command := exec.CommandContext(ctx, "go", "build", "-o", into, "github.com/berth-backup/berth/cmd/berth")
	command.Stdout, command.Stderr = os.Stderr, os.Stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("build berth: %w", err)
	}
	return nil
}

// fromCompose finds the containers that docker-compose.yml brought up.
func fromCompose(ctx context.Context) (*setup, error) {
	s := &setup{}
	for name, into := range map[string]*string{
		"BERTH_DEMO_URL": &s.url, "BERTH_DEMO_DATABASE_URL": &s.databaseURL,
		"BERTH_DEMO_KUBECONFIG": &s.kubeconfig, "BERTH_DEMO_DATA": &s.data,
	} {
		if *into = os.Getenv(name); *into == "" {
			return nil, fmt.Errorf("-against compose needs %s", name)
		}
	}
	start := os.Getenv("BERTH_DEMO_START_WORKER")
	if start == "" {
		return nil, errors.New("-against compose needs BERTH_DEMO_START_WORKER")
	}
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	s.cluster = config
	s.startWorker = func(ctx context.Context) error {
		command := exec.CommandContext(ctx, "sh", "-c", start)
		command.Stdout, command.Stderr = os.Stderr, os.Stderr
		if err := command.Run(); err != nil {
			return fmt.Errorf("start the worker: %w", err)
		}
		return nil
	}
	return s, prepareCluster(ctx, s.cluster)
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return l.Addr().String(), l.Close()
}

// keep starts the worker as well and waits for Ctrl-C.
func (s *setup) keep(ctx context.Context) error {
	if err := s.createSamples(ctx, smallFirst); err != nil {
		return err
	}
	if err := s.startWorker(ctx); err != nil {
		return err
	}
	say("")
	say("API         %s", s.url)
	say("kubeconfig  %s", s.kubeconfig)
	say("database    %s", s.databaseURL)
	say("archives    %s", s.data)
	say("")
	say("Try:  curl -sS %s/queue", s.url)
	say(`      curl -sS -H 'Content-Type: application/json' -d '{"spec":{"includedNamespaces":["ns1"]}}' %s/backups`, s.url)
	say("Ctrl-C stops everything.")
	<-ctx.Done()
	return nil
}
