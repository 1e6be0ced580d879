package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"runtime"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/berth-backup/berth/migrations"
)

// scratch makes databases of its own on a server and drops them all in the end;
// it touches no other.
type scratch struct {
	server *pgx.Conn
	url    *url.URL
	prefix string
	made   []string
}

func newScratch(ctx context.Context, databaseURL string) (*scratch, error) {
	u, err := url.Parse(databaseURL)
	if err != nil {
		return nil, fmt.Errorf("read the database URL: %w", err)
	}
	conn, err := pgx.Connect(ctx, databaseURL)
	if err != nil {
		return nil, err
	}
	return &scratch{server: conn, url: u, prefix: "berth_bench_" + strings.ToLower(rand.Text()[:10])}, nil
}

// InScratch runs do with a migrated database of its own, which is dropped again.
func InScratch(ctx context.Context, databaseURL string, do func(ctx context.Context, databaseURL string) error) (err error) {
	s, err := newScratch(ctx, databaseURL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	name, err := s.migrated(ctx)
	if err != nil {
		return err
	}
	return do(ctx, s.at(name))
}

// header says what the server is.
func (s *scratch) header(ctx context.Context) (Header, error) {
	h := Header{Cores: runtime.NumCPU(), Go: runtime.Version(), Databases: s.prefix}
	err := s.server.QueryRow(ctx, `SELECT current_setting('server_version'), current_setting('fsync'),
		current_setting('synchronous_commit'), current_setting('shared_buffers')`).
		Scan(&h.Postgres, &h.Fsync, &h.SynchronousCommit, &h.SharedBuffers)
	if err != nil {
		return h, fmt.Errorf("ask the server what it is: %w", err)
	}
	return h, nil
}

// migrated makes a database with Berth's schema.
func (s *scratch) migrated(ctx context.Context) (name string, err error) {
	if name, err = s.make(ctx, "template0"); err != nil {
		return "", err
	}
	return name, migrations.Up(ctx, s.at(name))
}

// copyOf makes a database like another, which nobody is connected to.
func (s *scratch) copyOf(ctx context.Context, original string) (name string, err error) {
	return s.make(ctx, original)
}

func (s *scratch) make(ctx context.Context, template string) (string, error) {
	name := fmt.Sprintf("%s_%d", s.prefix, len(s.made))
	s.made = append(s.made, name)
	if _, err := s.server.Exec(ctx, fmt.Sprintf("create database %s template %s strategy file_copy", name, template)); err != nil {
		return "", fmt.Errorf("make the database %s: %w", name, err)
	}
	return name, nil
}

// drop drops one database; none that is not there.
func (s *scratch) drop(ctx context.Context, name string) error {
	if _, err := s.server.Exec(ctx, "drop database if exists "+name+" with (force)"); err != nil {
		return fmt.Errorf("drop the database %s: %w", name, err)
	}
	return nil
}

// close drops what is left, also after ctx has ended.
func (s *scratch) close(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	// A statement that ctx interrupted has closed the connection.
	if s.server.IsClosed() {
		conn, err := pgx.Connect(ctx, s.url.String())
		if err != nil {
			return fmt.Errorf("drop the databases %s_…: %w", s.prefix, err)
		}
		s.server = conn
	}
	var failed error
	for _, name := range s.made {
		failed = errors.Join(failed, s.drop(ctx, name))
	}
	return errors.Join(failed, s.server.Close(ctx))
}

// at is the URL of a database, with room for many clients.
func (s *scratch) at(name string) string {
	u := *s.url
	u.Path = "/" + name
	return u.String()
}
