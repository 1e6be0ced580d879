package backup

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Objects stay as the API server wrote them. These functions find where values
// begin and end in JSON that is known to be well formed: they check the shape
// that they walk, not the grammar.

var errBadJSON = errors.New("malformed JSON")

// valueEnd is the index after the value that starts at b[i], or 0 where b ends
// before the value does. A number at the very end of b may go on, so it counts
// as not ended.
func valueEnd(b []byte, i int) int {
	switch b[i] {
	case '"':
		return stringEnd(b, i)
	case '{', '[':
		return nestedEnd(b, i)
	}
	if n := bytes.IndexAny(b[i:], ",]} \t\r\n"); n > 0 {
		return i + n
	}
	return 0
}

func nestedEnd(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			end := stringEnd(b, i)
			if end == 0 {
				return 0
			}
			i = end
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return 0
}

// stringEnd is the index after the closing quote of the string at b[i], or 0.
func stringEnd(b []byte, i int) int {
	for from := i + 1; ; {
		n := bytes.IndexByte(b[from:], '"')
		if n < 0 {
			return 0
		}
		quote := from + n
		backslashes := 0
		for b[quote-1-backslashes] == '\\' {
			backslashes++
		}
		if backslashes%2 == 0 {
			return quote + 1
		}
		from = quote + 1
	}
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && isSpace(b[i]) {
		i++
	}
	return i
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// fields calls each with every field of the object that b holds. Both slices
// are raw JSON, the key with its quotes.
func fields(b []byte, each func(key, value []byte) error) error {
	i := skipSpace(b, 0)
	if i >= len(b) || b[i] != '{' {
		return fmt.Errorf("%w: not an object", errBadJSON)
	}
	for i = skipSpace(b, i+1); i < len(b) && b[i] != '}'; {
		if b[i] != '"' {
			return fmt.Errorf("%w: a key is expected", errBadJSON)
		}
		keyEnd := valueEnd(b, i)
		colon := skipSpace(b, keyEnd)
		if keyEnd == 0 || colon >= len(b) || b[colon] != ':' {
			return fmt.Errorf("%w: a key without a value", errBadJSON)
		}
		start := skipSpace(b, colon+1)
		if start >= len(b) {
			return errBadJSON
		}
		end := valueEnd(b, start)
		if end == 0 {
			return errBadJSON
		}
		if err := each(b[i:keyEnd], b[start:end]); err != nil {
			return err
		}
		i = skipSpace(b, end)
		if i < len(b) && b[i] == ',' {
			i = skipSpace(b, i+1)
		}
	}
	if i >= len(b) {
		return errBadJSON
	}
	return nil
}

// text decodes a raw JSON string.
func text(raw []byte) (string, error) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", fmt.Errorf("%w: a string is expected", errBadJSON)
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1]), nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", err
	}
	return s, nil
}
