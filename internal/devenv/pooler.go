package devenv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// debianPooler is where Debian and Ubuntu install pgbouncer, which is on root's
// PATH alone.
const debianPooler = "/usr/sbin/pgbouncer"

// Pooler is a running pgbouncer that shares the connections to a Postgres by the
// transaction.
type Pooler struct {
	// URL is that of the Postgres, through the pooler. It tells pgx to name no
	// prepared statement.
	URL string

	// Of one that was started here.
	process *process
	folder  *folder
}

// StartPooler returns a pooler in front of the Postgres, for every database that
// it has or gets. The one that BERTH_POOLER_URL names is used as it is; else
// pgbouncer is started on a free port of 127.0.0.1. Two transactions that follow
// each other on one connection run on two of the server's, so that whatever one
// leaves behind is missed by the next.
//
// It is an error when pgbouncer is not installed, and when it does not answer
// within a minute.
func StartPooler(ctx context.Context, pg *Postgres) (*Pooler, error) {
	if named := os.Getenv("BERTH_POOLER_URL"); named != "" {
		if _, err := namedPostgres(ctx, named); err != nil {
			return nil, fmt.Errorf("use the pooler of BERTH_POOLER_URL: %w", err)
		}
		return &Pooler{URL: named}, nil
	}
	path, err := poolerPath()
	if err != nil {
		return nil, err
	}
	// It refuses root, as Postgres does.
	owner, err := postgresAccount()
	if err != nil {
		return nil, err
	}
	dir, err := newFolder("pooler", owner)
	if err != nil {
		return nil, err
	}
	for range startAttempts {
		var p *Pooler
		if p, err = runPooler(ctx, path, dir, owner, pg); err == nil {
			return p, nil
		}
		if !errors.Is(err, errPortTaken) {
			break
		}
	}
	return nil, errors.Join(err, dir.remove())
}

// Stop ends the pooler, waits until it has ended and removes its folder. It does
// nothing to one that was not started here.
func (p *Pooler) Stop() error {
	if p.process == nil {
		return nil
	}
	// On SIGTERM it waits for no client.
	return errors.Join(p.process.stop(syscall.SIGTERM, 10*time.Second), p.folder.remove())
}

func poolerPath() (string, error) {
	if path, err := exec.LookPath("pgbouncer"); err == nil {
		return path, nil
	}
	if isFile(debianPooler) {
		return debianPooler, nil
	}
	return "", fmt.Errorf("no pgbouncer on PATH and none at %s: install it, on Debian and Ubuntu with apt-get install pgbouncer", debianPooler)
}

// runPooler starts pgbouncer once and waits until Postgres answers through it.
func runPooler(ctx context.Context, path string, dir *folder, owner *account, pg *Postgres) (*Pooler, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	server, err := url.Parse(pg.URL)
	if err != nil {
		return nil, fmt.Errorf("read the URL of Postgres: %w", err)
	}
	files := map[string]string{"pgbouncer.ini": poolerSettings(server, port, dir), "users": poolerUsers(server)}
	for name, text := range files {
		if err := writeOwned(dir.join(name), text, owner); err != nil {
			return nil, fmt.Errorf("configure pgbouncer: %w", err)
		}
	}
	pgbouncer := command{
		name: "pgbouncer", path: path, args: []string{dir.join("pgbouncer.ini")},
		env: []string{"LC_ALL=C"}, dir: dir.path, user: owner,
	}
	p, err := pgbouncer.start(dir.join("log"))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	through := &Postgres{URL: poolerURL(server, port)}
	if err := waitReady(ctx, p, 20*time.Millisecond, through.ask); err != nil {
		return nil, errors.Join(err, p.end())
	}
	return &Pooler{URL: through.URL, process: p, folder: dir}, nil
}

// poolerURL is the server's URL by way of the pooler's port. Of pgx's modes this
// one names no statement and yet knows the types of what it sends.
func poolerURL(server *url.URL, port int) string {
	u := url.URL{
		Scheme: server.Scheme, User: server.User, Host: fmt.Sprintf("127.0.0.1:%d", port), Path: server.Path,
		RawQuery: "sslmode=disable&default_query_exec_mode=cache_describe",
	}
	return u.String()
}

// poolerSettings is pgbouncer.ini.
func poolerSettings(server *url.URL, port int, dir *folder) string {
	lines := []string{
		"[databases]",
		fmt.Sprintf("* = host=%s port=%s", server.Hostname(), cmp.Or(server.Port(), "5432")),
		"[pgbouncer]",
		"listen_addr = 127.0.0.1",
		"listen_port = " + strconv.Itoa(port),
		"unix_socket_dir =",
		"auth_type = " + poolerAuthentication(server),
		"auth_file = " + dir.join("users"),
		"pool_mode = transaction",
		"max_client_conn = 500",
		"default_pool_size = 40", // of each database
		// One connection is never enough, and of several each has its turn.
		"min_pool_size = 3",
		"server_round_robin = 1",
		"server_login_retry = 1",
		"server_tls_sslmode = prefer",
		"log_connections = 0",
		"log_disconnections = 0",
	}
	return strings.Join(lines, "\n") + "\n"
}

// poolerAuthentication is how clients say who they are: by Postgres' password,
// where it has one.
func poolerAuthentication(server *url.URL) string {
	if _, has := server.User.Password(); has {
		return "scram-sha-256"
	}
	return "trust"
}

// poolerUsers is the file of those who may connect, with the passwords that
// pgbouncer gives to Postgres.
func poolerUsers(server *url.URL) string {
	quote := func(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
	password, _ := server.User.Password()
	return quote(server.User.Username()) + " " + quote(password) + "\n"
}

func writeOwned(path, text string, owner *account) error {
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	return owner.own(path)
}
