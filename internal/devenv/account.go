package devenv

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is a user of this machine that servers run as.
type account struct {
	name     string
	uid, gid int
}

// postgresAccount returns whom Postgres runs as: nil, this process's own user,
// unless that is root, whom initdb, postgres and pgbouncer refuse. Root runs them as the
// user postgres where there is one, else as nobody.
func postgresAccount() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		u, err = user.Lookup("nobody")
	}
	if err != nil {
		return nil, fmt.Errorf("find a user to run Postgres as, which root may not: %w", err)
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return nil, fmt.Errorf("user %s: %w", u.Username, err)
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return nil, fmt.Errorf("user %s: %w", u.Username, err)
	}
	return &account{name: u.Username, uid: uid, gid: gid}, nil
}

func (a *account) credential() *syscall.Credential {
	return &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
}

// own gives the file or folder to the account. A nil account is this process's
// own user, who owns it already.
func (a *account) own(path string) error {
	if a == nil {
		return nil
	}
	return os.Chown(path, a.uid, a.gid)
}

// mayEnter tells whether the account may enter the folder: of it and of all above
// it, it is the owner, or others have the execute bit. Root's home is usually
// closed to others. A nil account enters what this process enters.
func (a *account) mayEnter(dir string) bool {
	if a == nil {
		return true
	}
	for {
		info, err := os.Stat(dir)
		if err != nil {
			return false
		}
		owned := info.Sys().(*syscall.Stat_t).Uid == uint32(a.uid)
		if !owned && info.Mode().Perm()&0o001 == 0 {
			return false
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return true
		}
		dir = parent
	}
}
