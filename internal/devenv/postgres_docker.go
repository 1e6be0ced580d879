package devenv

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// postgresImage is what a Docker engine runs.
const postgresImage = "postgres:18"

// dockerEngine returns the path of the docker client when an engine answers it,
// else "".
func dockerEngine(ctx context.Context) string {
	path, err := exec.LookPath("docker")
	if err != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	ping := command{name: "docker version", path: path, args: []string{"version", "--format", "{{.Server.Version}}"}}
	if _, err := ping.output(ctx); err != nil {
		return ""
	}
	return path
}

// startPostgresContainer starts the server in a container, whose port is a free
// one of 127.0.0.1.
func startPostgresContainer(ctx context.Context, docker string, opts PostgresOptions) (_ *Postgres, err error) {
	defer announce(opts.Progress, "starting "+postgresImage+" in Docker")()
	dir, remove, err := postgresFolder(opts.Dir, nil)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, remove())
		}
	}()
	password, err := containerPassword(dir)
	if err != nil {
		return nil, err
	}
	for range startAttempts {
		var pg *Postgres
		if pg, err = runPostgresContainer(ctx, docker, dir, password, opts); err == nil {
			end := pg.stop
			pg.stop = func() error { return errors.Join(end(), remove()) }
			return pg, nil
		}
		if !errors.Is(err, errPortTaken) {
			break
		}
	}
	return nil, err
}

// containerPassword returns the password in the folder, and writes a new one if
// there is none.
func containerPassword(dir string) (string, error) {
	path := filepath.Join(dir, "password")
	if text, err := os.ReadFile(path); err == nil {
		return string(text), nil
	}
	password := rand.Text()
	if err := os.WriteFile(path, []byte(password), 0o600); err != nil {
		return "", fmt.Errorf("write the password of Postgres: %w", err)
	}
	return password, nil
}

func runPostgresContainer(ctx context.Context, docker, dir, password string, opts PostgresOptions) (*Postgres, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	// In the foreground: the client passes signals on to the server, so that the
	// container ends and is removed (--rm) even when this process is killed.
	args := []string{"run", "--rm", "--publish", fmt.Sprintf("127.0.0.1:%d:5432", port), "--env", "POSTGRES_PASSWORD"}
	if opts.Dir != "" {
		args = append(args, "--volume", filepath.Join(dir, "data")+":/data", "--env", "PGDATA=/data")
	}
	server := command{
		name: "postgres in Docker",
		path: docker,
		args: append(append(args, postgresImage), postgresSettings(opts)...),
		env:  append(os.Environ(), "POSTGRES_PASSWORD="+password),
		// What Postgres takes for a fast shutdown.
		orphaned: syscall.SIGINT,
	}
	p, err := server.start(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	pg := &Postgres{URL: postgresURL(password, port)}
	pg.stop = func() error { return p.stop(syscall.SIGINT, 30*time.Second) }
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute) // to pull the image
	defer cancel()
	if err := waitReady(ctx, p, 50*time.Millisecond, pg.ask); err != nil {
		return nil, errors.Join(err, pg.stop())
	}
	return pg, nil
}
