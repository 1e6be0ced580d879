package db

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// warmed are the statements that dequeues and ends run behind the gate. They are
// parsed and planned when a connection is made: the first use of each would keep
// everybody else from the gate meanwhile.
var warmed = []string{"dispatch", "leave"}

// warm prepares a new connection, where its statements are kept. What keeps it
// from that, such as somebody who has a table locked, does not keep anybody from
// the connection: the first use then does it.
func warm(ctx context.Context, conn *pgx.Conn) error {
	if conn.Config().DefaultQueryExecMode != pgx.QueryExecModeCacheStatement {
		return nil
	}
	for _, name := range warmed {
		if err := plan(ctx, conn, statement(name)); err != nil {
			if postgresError(err) != nil && !broken(err) {
				return nil
			}
			return fmt.Errorf("prepare %s: %w", name, err)
		}
	}
	return nil
}

// plan parses a statement, and has Postgres make the plan that it keeps, as the
// transactions that run it would. Both lock the tables that it names, and wait
// for that for a moment only.
func plan(ctx context.Context, conn *pgx.Conn, text string) (err error) {
	sql, _, err := pgx.NamedArgs{}.RewriteQuery(ctx, conn, text, nil)
	if err != nil {
		return err
	}
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{BeginQuery: beginSerializable + "; set local lock_timeout = '100ms'"})
	if err != nil {
		return err
	}
	defer func() {
		if rollback := tx.Rollback(ctx); err == nil {
			err = rollback
		}
	}()
	prepared, err := conn.Prepare(ctx, sql, sql)
	if err != nil {
		return err
	}
	nothing := strings.TrimSuffix(strings.Repeat("NULL, ", len(prepared.ParamOIDs)), ", ")
	_, err = tx.Exec(ctx, fmt.Sprintf("EXPLAIN EXECUTE %s (%s)", pgx.Identifier{prepared.Name}.Sanitize(), nothing), pgx.QueryExecModeSimpleProtocol)
	return err
}
