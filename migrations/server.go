package migrations

import (
	"fmt"
	"strings"
)

// oldest is the server_version_num of the oldest Postgres that will do.
const oldest = 150000

// checkServer asks the server what it is.
func (d *driver) checkServer() error {
	var version string
	var number int
	err := d.conn.QueryRow(d.ctx, "SELECT version(), current_setting('server_version_num')::int").Scan(&version, &number)
	if err != nil {
		return fmt.Errorf("ask the server for its version: %w", err)
	}
	return accepts(version, number)
}

// accepts refuses what only speaks like Postgres: that no limit breaks and no two
// meet rests on its LOCK TABLE, SERIALIZABLE, SKIP LOCKED and EXCLUDE, which others
// do not have, or in which they keep transactions apart in another way.
func accepts(version string, number int) error {
	if !strings.HasPrefix(version, "PostgreSQL ") || strings.Contains(version, "-YB-") {
		return fmt.Errorf("the server is %q: Berth needs PostgreSQL itself, since what speaks like it keeps transactions apart in another way", version)
	}
	if number < oldest {
		return fmt.Errorf("the server is %q: Berth needs PostgreSQL %d or newer", version, oldest/10000)
	}
	return nil
}
