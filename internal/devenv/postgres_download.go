package devenv

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	embedded "github.com/fergusstrange/embedded-postgres"
)

// downloadPostgres returns the folder with the binaries that embedded-postgres
// downloads, once, into the cache folder.
func downloadPostgres(ctx context.Context, progress io.Writer) (bin string, err error) {
	defer announce(progress, "downloading Postgres, once")()
	cache, err := postgresCacheFolder()
	if err != nil {
		return "", err
	}
	dir, err := cached(ctx, cache, "postgres-"+string(embedded.V18), progress, func(ctx context.Context, into string) error {
		done := make(chan error, 1) // the library knows no context
		go func() { done <- unpackPostgres(into) }()
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	if err != nil {
		return "", fmt.Errorf("download Postgres: %w", err)
	}
	return filepath.Join(dir, "bin"), nil
}

// unpackPostgres downloads and unpacks the binaries into the folder. The library
// does so only on its way to starting a server, which it may not do here: it
// would run as this process's user, and root's is refused. So it is given a data
// folder that it takes for an existing one and that no server starts on.
func unpackPostgres(into string) error {
	scratch, err := newFolder("download", nil)
	if err != nil {
		return err
	}
	defer scratch.remove()
	data := scratch.join("data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(data, "PG_VERSION"), []byte("18\n"), 0o600); err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	config := embedded.DefaultConfig().Version(embedded.V18).Port(uint32(port)).Logger(nil).
		CachePath(scratch.join("archive")).RuntimePath(scratch.join("run")).DataPath(data).BinariesPath(into)
	err = embedded.NewDatabase(config).Start()
	if hasPostgres(filepath.Join(into, "bin")) {
		return nil
	}
	return err
}
