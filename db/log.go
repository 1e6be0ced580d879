package db

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/berth-backup/berth"
)

// AppendLog writes a chunk of a running attempt's log, at most berth.MaxLogChunk
// bytes. Chunks count from 0; one that is there already stays. ErrLeaseLost if the
// fence is no longer the backup's.
func (s *Store) AppendLog(ctx context.Context, run berth.Run, chunk int, text string) error {
	// The one character that no text in Postgres can hold, and what is no text.
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "?"), "\x00", "?")
	return s.fenced(ctx, "write the log of", "append_log", run, "", pgx.NamedArgs{"chunk": chunk, "text": text})
}

// Log reads the log of one attempt of a backup; of the newest that has one where
// attempt is 0. CodeNotFound if there is no backup of that id.
func (s *Store) Log(ctx context.Context, id uuid.UUID, attempt int) (string, error) {
	var text strings.Builder
	found := false
	err := s.snapshot(ctx, func(tx *transaction) error {
		text.Reset()
		rows, err := tx.Query(ctx, statement("log"), pgx.NamedArgs{"id": id, "attempt": attempt})
		if err != nil {
			return err
		}
		var chunk string
		_, err = pgx.ForEachRow(rows, []any{&chunk}, func() error {
			found = true
			text.WriteString(chunk)
			return nil
		})
		return err
	})
	if err != nil {
		return "", fmt.Errorf("read a backup's log: %w", err)
	}
	if !found {
		return "", berth.Errorf(berth.CodeNotFound, "there is no such backup")
	}
	return text.String(), nil
}
