package devenv

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// debianPostgres is where Debian and Ubuntu install each major version.
const debianPostgres = "/usr/lib/postgresql"

// postgresBin returns the folder with this machine's initdb and postgres: the
// named one, else BERTH_POSTGRES_BIN's, else the one on PATH, else the newest
// under /usr/lib/postgresql; "" when there is none.
func postgresBin(named string) (string, error) {
	if named == "" {
		named = os.Getenv("BERTH_POSTGRES_BIN")
	}
	if named != "" {
		dir, err := filepath.Abs(named)
		if err != nil {
			return "", err
		}
		if !hasPostgres(dir) {
			return "", fmt.Errorf("no initdb and postgres in %s", dir)
		}
		return dir, nil
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		// The binaries look for their shared files relative to where they are.
		if path, err = filepath.EvalSymlinks(path); err == nil && hasPostgres(filepath.Dir(path)) {
			return filepath.Dir(path), nil
		}
	}
	newest, bin := 0, ""
	dirs, _ := filepath.Glob(filepath.Join(debianPostgres, "*", "bin"))
	for _, dir := range dirs {
		version, err := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
		if err == nil && version > newest && hasPostgres(dir) {
			newest, bin = version, dir
		}
	}
	return bin, nil
}

// PostgresBin returns the folder with the binaries of a version: of 18 what
// FetchPostgres18 returns, of another major version what is installed; anything
// else is taken for the folder itself. The zero value returns "", which leaves
// the choice to StartPostgres.
func PostgresBin(ctx context.Context, version string) (string, error) {
	if version == "18" {
		return FetchPostgres18(ctx)
	}
	if _, err := strconv.Atoi(version); err != nil {
		return version, nil
	}
	dir := filepath.Join(debianPostgres, version, "bin")
	if !hasPostgres(dir) {
		return "", fmt.Errorf("Postgres %s is not installed in %s", version, dir)
	}
	return dir, nil
}

func hasPostgres(dir string) bool {
	return isFile(filepath.Join(dir, "initdb")) && isFile(filepath.Join(dir, "postgres"))
}
