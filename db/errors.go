package db

import (
	"context"
	"errors"
	"net"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/berth-backup/berth"
)

// The SQLSTATEs that decide what happens next.
const (
	undefinedTable      = "42P01"
	invalidText         = "22021" // of another encoding, or with U+0000
	invalidJSONText     = "22P05"
	uniqueViolation     = "23505"
	exclusionViolation  = "23P01"
	serializationFailed = "40001"
	deadlockDetected    = "40P01"
	queryCanceled       = "57014" // by statement_timeout
	adminShutdown       = "57P01" // or pg_terminate_backend
	crashShutdown       = "57P02"
	lockNotAvailable    = "55P03"
)

// The last lines of defence: behind the gate they never refuse anything.
const (
	constraintSlot     = "backups_slot"
	constraintDisjoint = "backups_running_disjoint"
	constraintName     = "backups_cluster_id_name_key"
)

func postgresError(err error) *pgconn.PgError {
	e, _ := errors.AsType[*pgconn.PgError](err)
	return e
}

func sqlState(err error) string {
	if e := postgresError(err); e != nil {
		return e.Code
	}
	return ""
}

// retryable says whether the whole transaction may be run again, and whether
// it was a last line of defence that refused it.
func retryable(err error) (retry bool, constraint string) {
	e := postgresError(err)
	if e == nil {
		return false, ""
	}
	switch e.Code {
	case serializationFailed, deadlockDetected, lockNotAvailable:
		return true, ""
	case uniqueViolation, exclusionViolation:
		if e.ConstraintName == constraintSlot || e.ConstraintName == constraintDisjoint {
			return true, e.ConstraintName
		}
	}
	return false, ""
}

// violates says whether it was that constraint that refused a row.
func violates(err error, constraint string) bool {
	e := postgresError(err)
	return e != nil && e.Code == uniqueViolation && e.ConstraintName == constraint
}

// broken says whether the connection broke while it was used, so that another one
// may well be there: not that there was none to be had, nor that time ran out.
func broken(err error) bool {
	if _, none := errors.AsType[*pgconn.ConnectError](err); none || errors.Is(err, context.Canceled) || pgconn.Timeout(err) {
		return false
	}
	if e := postgresError(err); e != nil {
		// Class 08 is what a pooler says of its own connection.
		return e.Code == adminShutdown || e.Code == crashShutdown || e.Code[:2] == "08"
	}
	if _, is := errors.AsType[*net.OpError](err); is {
		return true
	}
	return isEOF(err) || errors.Is(err, net.ErrClosed) || errors.Is(err, pgconn.ErrConnClosed) || pgconn.SafeToRetry(err)
}

// maxBroken is how many connections may break before it is told: after a restart
// of Postgres all that a pool has are.
const maxBroken = 5

// unbroken does what changes nothing, or nothing more when it is done again, on
// another connection where one breaks.
func unbroken(do func() error) (err error) {
	for range maxBroken {
		if err = do(); !broken(err) {
			return err
		}
	}
	return err
}

// border turns an error of the database's into one of berth's vocabulary where
// a client can do something about it: Postgres away becomes not-ready, text
// that no text in Postgres can be becomes malformed-request.
func border(err error) error {
	switch state := sqlState(err); {
	case err == nil:
		return nil
	case state == invalidText || state == invalidJSONText:
		return errors.Join(berth.Errorf(berth.CodeMalformedRequest, "text that is not UTF-8 or has the character U+0000"), err)
	case state == queryCanceled:
		return errors.Join(berth.Errorf(berth.CodeNotReady, "the database took too long"), err)
	case away(err):
		return errors.Join(berth.Errorf(berth.CodeNotReady, "the database cannot be reached"), err)
	}
	return err
}

// away says whether err means that Postgres could not be reached or is going
// down, rather than that it refused a statement.
func away(err error) bool {
	if errors.Is(err, context.Canceled) {
		return false
	}
	if e := postgresError(err); e != nil {
		switch e.Code[:2] {
		case "08", "57", "53": // connection, operator intervention, resources
			return true
		}
		return false
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return pgconn.Timeout(err) || pgconn.SafeToRetry(err) || errors.Is(err, pgconn.ErrConnClosed) || errors.Is(err, net.ErrClosed) || isEOF(err)
}
