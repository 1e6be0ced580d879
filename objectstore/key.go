package objectstore

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// key is where an object of a backup stands in the bucket.
func (s *Store) key(backup, object string) (string, error) {
	folder, err := s.backupFolder(backup)
	if err != nil {
		return "", err
	}
	if err := checkName(object); err != nil {
		return "", err
	}
	return path.Join(folder, object), nil
}

func (s *Store) backupFolder(backup string) (string, error) {
	if err := checkName(backup); err != nil {
		return "", err
	}
	return path.Join(s.folder, backup), nil
}

// checkName refuses what could leave its folder and what file stores keep for
// themselves: names that start with a dot are unfinished writes.
func checkName(name string) error {
	if name == "" || strings.HasPrefix(name, ".") || strings.ContainsFunc(name, notPlain) {
		return fmt.Errorf("%q cannot be the name of an object", name)
	}
	return nil
}

func checkPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	if !fs.ValidPath(prefix) || prefix == "." || strings.ContainsFunc(prefix, func(r rune) bool { return r != '/' && notPlain(r) }) {
		return fmt.Errorf("%q cannot be the prefix of a storage location", prefix)
	}
	return nil
}

// notPlain characters are separators or would be escaped in a key.
func notPlain(r rune) bool { return r <= ' ' || r == '/' || r == '\\' || r == 0x7f }
