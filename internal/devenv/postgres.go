package devenv

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// oldestPostgres is the oldest major version Berth runs on.
const oldestPostgres = 15

// PostgresOptions says which Postgres to start and how. The zero value is one
// for tests: fast, and gone after Stop.
type PostgresOptions struct {
	// BinDir is a folder with initdb and postgres. When it is set, neither
	// BERTH_DATABASE_URL nor anything else is looked at. Default: the folder
	// that BERTH_POSTGRES_BIN names, else what is found.
	BinDir string

	// Dir keeps the data after Stop, for the next start from the same folder.
	// Default: a temporary folder, which Stop removes.
	Dir string

	// Durable makes every commit reach the disk. Default: it does not, and a
	// crash of the machine may damage the data.
	Durable bool

	// Settings are settings of the server, as in postgresql.conf; they win over
	// the package's own, such as max_connections = 300.
	Settings map[string]string

	// Progress gets a line whenever something takes longer than two seconds.
	// Default: none.
	Progress io.Writer
}

// Postgres is a running server.
type Postgres struct {
	URL     string // of the database postgres, as its superuser
	Version int    // the major version, such as 15

	stop func() error
	once sync.Once
	err  error
}

// StartPostgres returns a server that answers. It takes the first of these: the
// one BERTH_DATABASE_URL names, in which case nothing is started or stopped;
// binaries on this machine; a container, where a Docker engine runs; binaries
// downloaded once. A server that it starts listens on a free port of 127.0.0.1.
//
// It is an error when there is none of these, when the server does not answer
// within a minute, and when it is older than 15.
func StartPostgres(ctx context.Context, opts PostgresOptions) (*Postgres, error) {
	if named := os.Getenv("BERTH_DATABASE_URL"); named != "" && opts.BinDir == "" {
		pg, err := namedPostgres(ctx, named)
		if err != nil {
			return nil, fmt.Errorf("use the Postgres of BERTH_DATABASE_URL: %w", err)
		}
		return pg, nil
	}
	bin, err := postgresBin(opts.BinDir)
	if err != nil {
		return nil, err
	}
	if bin == "" {
		if engine := dockerEngine(ctx); engine != "" {
			return startPostgresContainer(ctx, engine, opts)
		}
		if bin, err = downloadPostgres(ctx, opts.Progress); err != nil {
			return nil, fmt.Errorf("no Postgres here: none installed, no Docker engine runs, and: %w", err)
		}
	}
	return startPostgresBinaries(ctx, bin, opts)
}

// Stop ends the server, waits until it has ended and removes its temporary
// folder. It does nothing to a server that was not started here, and nothing the
// second time.
func (pg *Postgres) Stop() error {
	pg.once.Do(func() {
		if pg.stop != nil {
			pg.err = pg.stop()
		}
	})
	return pg.err
}

// namedPostgres checks that the server at the URL answers.
func namedPostgres(ctx context.Context, dsn string) (*Postgres, error) {
	pg := &Postgres{URL: dsn}
	return pg, pg.ask(ctx)
}

// ask opens a connection and asks the server its version.
func (pg *Postgres) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, pg.URL)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	var text string
	if err := conn.QueryRow(ctx, "SHOW server_version_num").Scan(&text); err != nil {
		return err
	}
	number, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("server_version_num: %w", err)
	}
	pg.Version = number / 10000
	if pg.Version < oldestPostgres {
		return fmt.Errorf("it is Postgres %d; %d is the oldest that will do", pg.Version, oldestPostgres)
	}
	return nil
}

// startPostgresBinaries starts the server whose binaries are in bin.
func startPostgresBinaries(ctx context.Context, bin string, opts PostgresOptions) (_ *Postgres, err error) {
	defer announce(opts.Progress, "starting Postgres")()
	owner, err := postgresAccount()
	if err != nil {
		return nil, err
	}
	dir, remove, err := postgresFolder(opts.Dir, owner)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, remove())
		}
	}()
	password, err := initPostgres(ctx, bin, dir, owner)
	if err != nil {
		return nil, err
	}
	for range startAttempts {
		var pg *Postgres
		if pg, err = runPostgres(ctx, bin, dir, owner, password, opts); err == nil {
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

// postgresFolder returns the folder that holds the data, the log and the
// password, and how to remove it.
func postgresFolder(keep string, owner *account) (dir string, remove func() error, err error) {
	if keep == "" {
		f, err := newFolder("postgres", owner)
		if err != nil {
			return "", nil, err
		}
		return f.path, f.remove, nil
	}
	if dir, err = filepath.Abs(keep); err != nil {
		return "", nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", nil, fmt.Errorf("make the folder of Postgres: %w", err)
	}
	if !owner.mayEnter(filepath.Dir(dir)) {
		return "", nil, fmt.Errorf("Postgres runs as the user %s, who may not enter %s", owner.name, filepath.Dir(dir))
	}
	if err := owner.own(dir); err != nil {
		return "", nil, fmt.Errorf("make the folder of Postgres: %w", err)
	}
	return dir, func() error { return nil }, nil
}

// initPostgres makes the data folder, if it is not there, and returns the
// superuser's password.
func initPostgres(ctx context.Context, bin, dir string, owner *account) (password string, err error) {
	secret, data := filepath.Join(dir, "password"), filepath.Join(dir, "data")
	if isFolder(data) {
		text, err := os.ReadFile(secret)
		if err != nil {
			return "", fmt.Errorf("read the password of Postgres: %w", err)
		}
		return string(text), nil
	}
	password = rand.Text()
	if err := os.WriteFile(secret, []byte(password), 0o600); err != nil {
		return "", fmt.Errorf("write the password of Postgres: %w", err)
	}
	if err := owner.own(secret); err != nil {
		return "", fmt.Errorf("write the password of Postgres: %w", err)
	}
	part := data + ".part" // takes its name when it is complete
	if err := os.RemoveAll(part); err != nil {
		return "", fmt.Errorf("initdb: %w", err)
	}
	initdb := command{
		name: "initdb",
		path: filepath.Join(bin, "initdb"),
		args: []string{
			"--pgdata", part, "--username", "postgres", "--pwfile", secret, "--auth", "scram-sha-256",
			"--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions",
		},
		env: postgresEnv(bin), dir: dir, user: owner,
	}
	if _, err := initdb.output(ctx); err != nil {
		return "", err
	}
	if err := os.Rename(part, data); err != nil {
		return "", fmt.Errorf("initdb: %w", err)
	}
	return password, nil
}

// runPostgres starts the server once and waits until it answers.
func runPostgres(ctx context.Context, bin, dir string, owner *account, password string, opts PostgresOptions) (*Postgres, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	args := []string{"-D", filepath.Join(dir, "data"), "-p", strconv.Itoa(port), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="}
	server := command{
		name: "postgres",
		path: filepath.Join(bin, "postgres"),
		args: append(args, postgresSettings(opts)...),
		env:  postgresEnv(bin), dir: dir, user: owner,
		// On SIGQUIT it ends at once and takes its children and its shared
		// memory along; SIGKILL would leave the memory.
		orphaned: syscall.SIGQUIT,
	}
	p, err := server.start(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	pg := &Postgres{URL: postgresURL(password, port)}
	pg.stop = func() error {
		if opts.Durable || opts.Dir != "" {
			return p.stop(syscall.SIGINT, 30*time.Second) // with a checkpoint
		}
		return p.stop(syscall.SIGQUIT, 10*time.Second)
	}
	return pg, pg.waitReady(ctx, p)
}

// waitReady waits until the server answers, for up to a minute, and stops it when
// it does not.
func (pg *Postgres) waitReady(ctx context.Context, p *process) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := waitReady(ctx, p, 20*time.Millisecond, pg.ask); err != nil {
		return errors.Join(err, pg.Stop())
	}
	return nil
}

func postgresURL(password string, port int) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword("postgres", password),
		Host: fmt.Sprintf("127.0.0.1:%d", port), Path: "/postgres", RawQuery: "sslmode=disable",
	}
	return u.String()
}

// postgresSettings returns the server's settings as arguments of postgres.
func postgresSettings(opts PostgresOptions) []string {
	args := []string{"-c", "max_connections=300", "-c", "timezone=UTC"}
	if !opts.Durable {
		args = append(args, "-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off")
	}
	for name, value := range opts.Settings {
		args = append(args, "-c", name+"="+value)
	}
	return args
}

// postgresEnv returns the environment of the programs in bin. Of the variables
// that libpq reads none is passed on.
func postgresEnv(bin string) []string {
	env := []string{"PATH=" + bin + ":/usr/bin:/bin", "LC_ALL=C"}
	// Binaries that were unpacked somewhere find their libraries beside them.
	lib := filepath.Join(filepath.Dir(bin), "lib")
	if libs, _ := filepath.Glob(filepath.Join(lib, "libpq.so*")); len(libs) > 0 {
		env = append(env, "LD_LIBRARY_PATH="+lib)
	}
	return env
}
