// Command run runs another command with a Postgres and a Kubernetes API, which it
// starts before and stops afterwards:
//
//	go run ./internal/devenv/run -- go test -race ./...
//
// The command finds them in BERTH_DATABASE_URL and BERTH_KUBECONFIG, and in
// BERTH_POOLER_URL with -pooler a pgbouncer in front of the Postgres; where one of
// these is set already, what it names is used. Its exit code is the command's, or
// 1 when something did not start. Signals are passed on to the command.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"github.com/berth-backup/berth/internal/devenv"
)

func init() {
	// The command is to end with this process, which the kernel tells by the
	// thread that started it.
	runtime.LockOSThread()
}

func main() {
	postgres := flag.String("postgres", "", "major `version` of Postgres, or the folder of its binaries (default: what is found)")
	noKubernetes := flag.Bool("no-kubernetes", false, "start no Kubernetes API")
	pooler := flag.Bool("pooler", false, "start a pgbouncer in front of Postgres too")
	bucket := flag.Bool("bucket", false, "serve an S3 bucket in memory too")
	durable := flag.Bool("durable", false, "let every commit of Postgres reach the disk, as for a measurement")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: run [flags] -- command [argument ...]")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	code, err := run(choice{postgres: *postgres, durable: *durable, pooler: *pooler, kubernetes: !*noKubernetes, bucket: *bucket}, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "run:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// choice is what the flags ask for.
type choice struct {
	postgres string // a version, or the folder of its binaries
	// durable: every commit reaches the disk.
	durable, pooler, kubernetes, bucket bool
}

// run starts the servers, runs the command and stops the servers.
func run(servers choice, args []string) (code int, err error) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	orphaned := devenv.Orphaned()

	env, err := start(signals, orphaned, servers)
	if err != nil {
		return 1, errors.Join(err, env.stop())
	}
	defer func() { err = errors.Join(err, env.stop()) }()
	return runCommand(args, env.variables(), signals, orphaned)
}

// environment is what was started.
type environment struct {
	postgres   *devenv.Postgres
	pooler     *devenv.Pooler     // nil when none was asked for
	kubernetes *devenv.Kubernetes // nil when none was asked for
	bucket     *devenv.Bucket     // nil when none was asked for
}

// start starts the servers at once. It gives up on a signal and when the parent
// dies; what has started by then is in the environment.
func start(signals <-chan os.Signal, orphaned <-chan struct{}, servers choice) (env environment, err error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	var both sync.WaitGroup
	var postgresErr, kubernetesErr error
	both.Go(func() {
		if env.postgres, postgresErr = startPostgres(ctx, servers); postgresErr == nil && servers.pooler {
			env.pooler, postgresErr = devenv.StartPooler(ctx, env.postgres)
		}
		if postgresErr != nil {
			cancel(postgresErr)
		}
	})
	if servers.kubernetes {
		both.Go(func() {
			env.kubernetes, kubernetesErr = devenv.StartKubernetes(ctx, devenv.KubernetesOptions{Progress: os.Stderr})
			if kubernetesErr != nil {
				cancel(kubernetesErr)
			}
		})
	}
	if servers.bucket {
		if env.bucket, err = devenv.StartBucket(); err != nil {
			cancel(err)
		}
	}
	done := make(chan struct{})
	go func() { both.Wait(); close(done) }()
	select {
	case <-done:
	case sig := <-signals:
		cancel(errors.New(sig.String()))
	case <-orphaned:
		cancel(errors.New("the parent process has ended"))
	}
	<-done
	if err := context.Cause(ctx); err != nil {
		return env, err
	}
	return env, nil
}

func startPostgres(ctx context.Context, servers choice) (*devenv.Postgres, error) {
	bin, err := devenv.PostgresBin(ctx, servers.postgres)
	if err != nil {
		return nil, err
	}
	return devenv.StartPostgres(ctx, devenv.PostgresOptions{BinDir: bin, Durable: servers.durable, Progress: os.Stderr})
}

func (e environment) variables() []string {
	vars := []string{"BERTH_DATABASE_URL=" + e.postgres.URL}
	if e.pooler != nil {
		vars = append(vars, "BERTH_POOLER_URL="+e.pooler.URL)
	}
	if e.kubernetes != nil {
		vars = append(vars, "BERTH_KUBECONFIG="+e.kubernetes.Kubeconfig)
	}
	if e.bucket != nil {
		vars = append(vars, "BERTH_STORAGE_URL="+e.bucket.URL, "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test")
	}
	return vars
}

func (e environment) stop() error {
	var errs []error
	if e.bucket != nil {
		errs = append(errs, e.bucket.Stop())
	}
	if e.kubernetes != nil {
		errs = append(errs, e.kubernetes.Stop())
	}
	if e.pooler != nil {
		errs = append(errs, e.pooler.Stop())
	}
	if e.postgres != nil {
		errs = append(errs, e.postgres.Stop())
	}
	return errors.Join(errs...)
}

// runCommand runs the command to its end and returns its exit code, which is 128
// and the signal's number when a signal ended it.
func runCommand(args, vars []string, signals <-chan os.Signal, orphaned <-chan struct{}) (int, error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), vars...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	// A group of its own, so that a signal reaches what the command started too,
	// and once. From a group in the background it cannot read a terminal.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if isTerminal(os.Stdin) {
		cmd.Stdin = nil
	}
	devenv.DieWithParent(cmd.SysProcAttr, syscall.SIGKILL)
	if err := cmd.Start(); err != nil {
		return 1, fmt.Errorf("start %s: %w", strings.Join(args, " "), err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case sig := <-signals:
			_ = syscall.Kill(-cmd.Process.Pid, sig.(syscall.Signal))
		case <-orphaned:
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			orphaned = nil
		case err := <-ended:
			return exitCode(err)
		}
	}
}

func exitCode(err error) (int, error) {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return 0, err
	}
	if status := exit.Sys().(syscall.WaitStatus); status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return exit.ExitCode(), nil
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
