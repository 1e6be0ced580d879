package db_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/berth-backup/berth/db"
	"github.com/berth-backup/berth/db/dbtest"
)

// Every file of db/sql is a statement that the migrated schema can prepare.
func TestStatementsPrepare(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), dbtest.New(t).Direct)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if len(db.Statements()) == 0 {
		t.Fatal("no statements are embedded")
	}
	for name, text := range db.Statements() {
		sql, _, err := pgx.NamedArgs{}.RewriteQuery(t.Context(), conn, text, nil)
		if err != nil {
			t.Errorf("%s.sql: %v", name, err)
			continue
		}
		if _, err := conn.Prepare(t.Context(), name, sql); err != nil {
			t.Errorf("%s.sql: %v", name, err)
		}
	}
}
