package db

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/berth-backup/berth"
)

// gates is the number of dispatch gates; cluster c uses gate c mod gates.
const gates = 16

const (
	maxTries     = 10
	firstBackoff = 5 * time.Millisecond
	maxBackoff   = 250 * time.Millisecond
)

// Transactions make their own settings, since behind a transaction-pooling
// pgbouncer a session's are not the client's. SET takes no snapshot.
//
// Those that write read by indexes alone: a plan that was made while a table was
// small and scans it is kept while the table grows, and a scan under
// SERIALIZABLE locks all of it against the dequeues of other clusters. Their
// statements are short, so that planning them anew, which is done behind the gate,
// never pays.
//
// None is compiled: what a reader asks of each row looks so costly that a page of
// the queue would take seconds to compile and a fraction of one to run.
const (
	settings          = "; set local lock_timeout = '2s'; set local statement_timeout = '10s'; set local idle_in_transaction_session_timeout = '10s'; set local jit = off"
	byIndexes         = "; set local enable_seqscan = off; set local plan_cache_mode = force_generic_plan"
	beginSerializable = "begin isolation level serializable" + settings + byIndexes
	beginCommitted    = "begin isolation level read committed" + settings + byIndexes
	beginSnapshot     = "begin isolation level repeatable read read only" + settings
)

// apart is how transactions on one queue are kept apart. Tests take it away to
// see that it is needed.
type apart struct {
	gate    bool
	dequeue string // how a dequeue begins
}

// dequeue runs do in a SERIALIZABLE transaction behind the cluster's gate.
func (s *Store) dequeue(ctx context.Context, clusterID int32, do func(*transaction) error) error {
	return s.again(ctx, func() error { return s.transact(ctx, s.apart.dequeue, &clusterID, do) })
}

// gated runs do in a READ COMMITTED transaction behind the cluster's gate.
// Every transaction that may need the gate takes it before anything else: a
// row first and then the gate waits in a circle with a finish.
func (s *Store) gated(ctx context.Context, clusterID int32, do func(*transaction) error) error {
	return s.again(ctx, func() error { return s.transact(ctx, beginCommitted, &clusterID, do) })
}

// ungated runs do in a READ COMMITTED transaction that never needs the gate.
func (s *Store) ungated(ctx context.Context, do func(*transaction) error) error {
	return s.again(ctx, func() error { return s.transact(ctx, beginCommitted, nil, do) })
}

// snapshot runs do on one snapshot, read only; again on another connection where
// one breaks.
func (s *Store) snapshot(ctx context.Context, do func(*transaction) error) error {
	return unbroken(func() error {
		return s.again(ctx, func() error { return s.transact(ctx, beginSnapshot, nil, do) })
	})
}

// transaction is an open one, on a connection of its own.
type transaction struct {
	conn *pgxpool.Conn
}

func (tx *transaction) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return tx.conn.Exec(ctx, sql, args...)
}

func (tx *transaction) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return tx.conn.Query(ctx, sql, args...)
}

func (tx *transaction) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return tx.conn.QueryRow(ctx, sql, args...)
}

// together runs statements in their order in one message; each reads what
// committed before it began, as if it were sent alone.
func (tx *transaction) together(ctx context.Context, batch *pgx.Batch) error {
	return tx.conn.SendBatch(ctx, batch).Close()
}

// last runs the transaction's last statement, reads its one row and commits, all
// in one message: the gate is not held while an answer travels. Where the
// statement gives no row it changed nothing, and the error is pgx.ErrNoRows.
func (tx *transaction) last(ctx context.Context, sql string, args pgx.NamedArgs, into ...any) error {
	batch := &pgx.Batch{}
	batch.Queue(sql, args)
	batch.Queue("commit")
	results := tx.conn.SendBatch(ctx, batch)
	err := results.QueryRow().Scan(into...)
	if _, commit := results.Exec(); err == nil && commit != nil {
		err = fmt.Errorf("commit: %w", commit)
	}
	if end := results.Close(); err == nil {
		err = end
	}
	return err
}

// open tells whether the transaction still has to end.
func (tx *transaction) open() bool {
	return !tx.conn.Conn().IsClosed() && tx.conn.Conn().PgConn().TxStatus() != 'I'
}

func (tx *transaction) commit(ctx context.Context) error {
	tag, err := tx.conn.Exec(ctx, "commit", pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	// What a failed transaction answers.
	if tag.String() != "COMMIT" {
		return fmt.Errorf("commit: %w", pgx.ErrTxCommitRollback)
	}
	return nil
}

// transact runs do in a transaction, and commits where do has not.
//
// The gate is taken in the message that begins, as a statement of its own and
// unprepared: only a statement behind it fixes the snapshot, which is thus not
// older than the wait. In a batch of prepared statements, or after a parse, it
// would be.
func (s *Store) transact(ctx context.Context, begin string, gateOf *int32, do func(*transaction) error) (err error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Release()
	tx := &transaction{conn: conn}
	var taken time.Time // the gate
	defer func() {
		if tx.open() {
			if _, rollback := conn.Exec(context.WithoutCancel(ctx), "rollback", pgx.QueryExecModeSimpleProtocol); rollback != nil {
				err = errors.Join(err, fmt.Errorf("roll back: %w", rollback))
			}
		}
		if s.gateHeld != nil && !taken.IsZero() {
			s.gateHeld(time.Since(taken))
		}
	}()
	gated := gateOf != nil && s.apart.gate
	if gated {
		begin += fmt.Sprintf("; lock table dispatch_gate_%d in exclusive mode", *gateOf%gates)
	}
	if _, err := conn.Exec(ctx, begin, pgx.QueryExecModeSimpleProtocol); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if gated {
		taken = time.Now()
	}
	if err := do(tx); err != nil || !tx.open() {
		return err
	}
	return tx.commit(ctx)
}

// again runs a whole transaction until it commits or cannot be retried, with
// full jitter between the tries.
func (s *Store) again(ctx context.Context, transaction func() error) error {
	backoff := firstBackoff
	for try := 1; ; try++ {
		err := transaction()
		retry, constraint := retryable(err)
		if !retry {
			return border(err)
		}
		s.count(sqlState(err), constraint)
		if try == maxTries {
			return errors.Join(berth.Errorf(berth.CodeNotReady, "the database is too busy"), fmt.Errorf("gave up after %d tries: %w", maxTries, err))
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(rand.N(backoff)):
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

func (s *Store) count(state, constraint string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retries[state]++
	if constraint != "" {
		s.hits[constraint]++
		slog.Error("the last line of defence refused an admission: the gate did not hold", "constraint", constraint)
	}
}

func isEOF(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }
