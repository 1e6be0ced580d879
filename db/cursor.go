package db

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/berth-backup/berth"
)

// badCursor is the error of a cursor that no page gave out.
func badCursor() *berth.Error {
	return &berth.Error{Code: berth.CodeMalformedRequest, Detail: "the cursor is none that this API gave out",
		Fields: []berth.FieldError{{Parameter: "cursor", Code: "invalid-cursor", Detail: "not a cursor of this API"}}}
}

func encodeCursor(seq int64) string {
	return base64.RawURLEncoding.EncodeToString([]byte("seq:" + strconv.FormatInt(seq, 10)))
}

func decodeCursor(cursor string) (seq int64, err error) {
	err = decode(cursor, "seq:%d", &seq)
	if err == nil && encodeCursor(seq) != cursor {
		err = fmt.Errorf("%q is written in another way", cursor)
	}
	return seq, err
}

// queueCursor is the place behind which a page of a queue begins: of the queue
// itself or, later, of those that are not due yet. The zero value is before the
// first.
type queueCursor struct {
	Later bool
	Place int64 // microseconds since 1970
	Seq   int64
}

func (c queueCursor) String() string {
	text := fmt.Sprintf("queue:%t:%d:%d", c.Later, c.Place, c.Seq)
	return base64.RawURLEncoding.EncodeToString([]byte(text))
}

// place is the cursor's instant; before every other one for the zero value.
func (c queueCursor) place() pgtype.Timestamptz {
	if c == (queueCursor{}) {
		return pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}
	}
	return pgtype.Timestamptz{Time: time.UnixMicro(c.Place), Valid: true}
}

// decodeQueueCursor reads what String wrote; the empty text is the zero value.
func decodeQueueCursor(cursor string) (c queueCursor, err error) {
	if cursor == "" {
		return c, nil
	}
	err = decode(cursor, "queue:%t:%d:%d", &c.Later, &c.Place, &c.Seq)
	if err == nil && c.String() != cursor {
		err = fmt.Errorf("%q is written in another way", cursor)
	}
	if year := time.UnixMicro(c.Place).UTC().Year(); err == nil && (year < 1 || year > 9999) {
		err = fmt.Errorf("%q is of the year %d", cursor, year)
	}
	return c, err
}

func decode(cursor, format string, into ...any) error {
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return err
	}
	_, err = fmt.Sscanf(string(text), format, into...)
	return err
}
