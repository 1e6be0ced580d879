package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/berth-backup/berth/internal/devenv"
)

// stopGrace is how long a process of Berth's may take to end in order.
const stopGrace = 20 * time.Second

// startProcess starts berth with its log in the folder. It dies with this
// process and is stopped with the set-up; an end before that is reported then.
func (s *setup) startProcess(binary, folder string, environment []string, args ...string) error {
	name := args[0]
	log, err := os.Create(filepath.Join(folder, name+".log"))
	if err != nil {
		return fmt.Errorf("start berth %s: %w", name, err)
	}
	command := exec.Command(binary, args...)
	command.Env = append(withoutBerth(os.Environ()), environment...)
	command.Stdout, command.Stderr = log, log
	// In a group of its own, Ctrl-C reaches this process alone, which then ends
	// it in order.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	devenv.DieWithParent(command.SysProcAttr, syscall.SIGKILL)

	started, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		// The kernel counts the thread that forked as the parent: it must live
		// as long as the child.
		runtime.LockOSThread()
		err := command.Start()
		started <- err
		if err == nil {
			ended <- command.Wait()
		}
	}()
	if err := <-started; err != nil {
		return errors.Join(fmt.Errorf("start berth %s: %w", name, err), log.Close())
	}
	s.onStop(func() error {
		defer func() { _ = log.Close() }()
		return endProcess(command, name, log.Name(), ended)
	})
	return nil
}

// withoutBerth leaves out what the user set for a Berth of their own.
func withoutBerth(environment []string) []string {
	return slices.DeleteFunc(environment, func(variable string) bool { return strings.HasPrefix(variable, "BERTH_") })
}

func endProcess(command *exec.Cmd, name, log string, ended <-chan error) error {
	select {
	case err := <-ended:
		text, _ := os.ReadFile(log)
		return fmt.Errorf("berth %s ended by itself (%v); its log:\n%s", name, err, text)
	default:
	}
	if err := command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop berth %s: %w", name, err)
	}
	select {
	case err := <-ended:
		if err != nil {
			return fmt.Errorf("berth %s did not end in order: %w", name, err)
		}
		return nil
	case <-time.After(stopGrace):
		return errors.Join(fmt.Errorf("berth %s did not end within %s", name, stopGrace), command.Process.Kill())
	}
}

// makeDatabase makes the demo's own database on the server.
func (s *setup) makeDatabase(ctx context.Context, server string) error {
	config, err := pgx.ParseConfig(server)
	if err != nil {
		return fmt.Errorf("read the server's URL: %w", err)
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("reach Postgres: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	name := fmt.Sprintf("berth_demo_%d", os.Getpid())
	if _, err := conn.Exec(ctx, "create database "+name); err != nil {
		return fmt.Errorf("make the demo's database: %w", err)
	}
	s.databaseURL, err = withDatabase(server, name)
	if err != nil {
		return err
	}
	s.onStop(func() error { return dropDatabase(server, name) })
	return nil
}

// dropDatabase removes the demo's database from a server that may go on.
func dropDatabase(server, name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return fmt.Errorf("drop the demo's database: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, "drop database "+name+" with (force)"); err != nil {
		return fmt.Errorf("drop the demo's database: %w", err)
	}
	return nil
}

func (s *setup) awaitServer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		status, _, err := curl(ctx, "GET", s.url+"/readyz", "")
		if err == nil && status == 200 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("berth server is not ready: %w", errors.Join(ctx.Err(), err))
		case <-time.After(50 * time.Millisecond):
		}
	}
}
