package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/berth-backup/berth"
)

// maxBodyBytes is the largest body that is read.
const maxBodyBytes = 1 << 20

// maxBodyDepth is how deep a body may be nested; nothing in the contract needs
// a tenth of it.
const maxBodyDepth = 100

// readBody reads r's body as JSON: objects as map[string]any, numbers as
// json.Number. Errors are *berth.Error. A body without a Content-Type counts
// as JSON, no body where one is optional as an empty object.
func readBody(w http.ResponseWriter, r *http.Request, declared *body) (any, error) {
	if err := checkContentType(r.Header.Get("Content-Type"), declared.mediaTypes); err != nil {
		return nil, err
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return nil, berth.Errorf(berth.CodePayloadTooLarge, "The body is larger than %d bytes.", maxBodyBytes)
	}
	if err != nil {
		return nil, berth.Errorf(berth.CodeMalformedRequest, "The body ended before its time.")
	}
	if len(body) == 0 && declared.optional {
		return map[string]any{}, nil
	}
	return parseJSON(body)
}

func checkContentType(contentType string, taken []string) error {
	if contentType == "" {
		return nil
	}
	mediaType, parameters, err := mime.ParseMediaType(contentType)
	charset := strings.ToLower(parameters["charset"])
	if err != nil || !slices.Contains(taken, mediaType) || (charset != "" && charset != "utf-8") {
		return berth.Errorf(berth.CodeUnsupportedMediaType,
			"The body's Content-Type is %q; send JSON in UTF-8 and say so (curl: -H 'Content-Type: application/json').", contentType)
	}
	return nil
}

// parseJSON reads one JSON value and refuses what readers of JSON disagree on:
// a key that stands twice, text that is not UTF-8, anything behind the value;
// and U+0000, which no column of text can hold.
func parseJSON(body []byte) (any, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, berth.Errorf(berth.CodeMalformedRequest, "The body is empty.")
	}
	if !utf8.Valid(body) {
		return nil, berth.Errorf(berth.CodeMalformedRequest, "The body is not UTF-8.")
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	value, err := parseValue(decoder, nil)
	if err != nil {
		return nil, malformedJSON(err, decoder.InputOffset())
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, berth.Errorf(berth.CodeMalformedRequest, "The body goes on behind its JSON value, at byte %d.", decoder.InputOffset())
	}
	return value, nil
}

func malformedJSON(err error, offset int64) error {
	if known, ok := errors.AsType[*berth.Error](err); ok {
		return known
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return berth.Errorf(berth.CodeMalformedRequest, "The body is not JSON: it ends too early.")
	}
	return berth.Errorf(berth.CodeMalformedRequest, "The body is not JSON: it goes wrong near byte %d.", offset)
}

// parseValue reads the value that comes next; at is the way to it.
func parseValue(decoder *json.Decoder, at []string) (any, error) {
	if len(at) > maxBodyDepth {
		return nil, berth.Errorf(berth.CodeMalformedRequest, "The body is nested deeper than %d.", maxBodyDepth)
	}
	token, err := decoder.Token()
	if err != nil {
		return nil, err
	}
	switch token := token.(type) {
	case json.Delim:
		if token == '{' {
			return parseObject(decoder, at)
		}
		return parseArray(decoder, at)
	case string:
		return token, checkText(token, at)
	default:
		return token, nil
	}
}

func parseObject(decoder *json.Decoder, at []string) (any, error) {
	object := map[string]any{}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		key := token.(string)
		here := append(slices.Clip(at), key)
		if err := checkText(key, here); err != nil {
			return nil, err
		}
		if _, twice := object[key]; twice {
			return nil, malformedAt(here, "duplicate-field", "stands twice")
		}
		if object[key], err = parseValue(decoder, here); err != nil {
			return nil, err
		}
	}
	_, err := decoder.Token() // the closing brace
	return object, err
}

func parseArray(decoder *json.Decoder, at []string) (any, error) {
	array := []any{}
	for decoder.More() {
		entry, err := parseValue(decoder, append(slices.Clip(at), strconv.Itoa(len(array))))
		if err != nil {
			return nil, err
		}
		array = append(array, entry)
	}
	_, err := decoder.Token() // the closing bracket
	return array, err
}

func checkText(text string, at []string) error {
	if strings.ContainsRune(text, 0) {
		return malformedAt(at, "invalid", "must not contain the character U+0000")
	}
	return nil
}

func malformedAt(at []string, code, detail string) error {
	return refusal(berth.CodeMalformedRequest, []berth.FieldError{{Pointer: pointerTo(at), Code: code, Detail: detail}})
}

// pointerTo writes a way into a value as a JSON pointer (RFC 6901).
func pointerTo(at []string) string {
	var b strings.Builder
	for _, segment := range at {
		b.WriteString("/" + berth.EscapePointer(segment))
	}
	return b.String()
}

// withoutWrongFields takes out of value what problems point to, and, unless
// nulls is set, members that are null, since outside of a patch null means the
// same as leaving a field out. Entries of arrays become null instead, so that the
// others keep their places.
func withoutWrongFields(value any, problems []berth.FieldError, nulls bool) any {
	c := cleaning{wrong: map[string]bool{}, nulls: nulls}
	for _, p := range problems {
		c.wrong[p.Pointer] = true
	}
	return c.clean(value, nil)
}

// cleaning says what stays of a body.
type cleaning struct {
	wrong map[string]bool
	nulls bool
}

func (c cleaning) clean(value any, at []string) any {
	switch value := value.(type) {
	case map[string]any:
		kept := make(map[string]any, len(value))
		for key, member := range value {
			here := append(slices.Clip(at), key)
			if (member != nil || c.nulls) && !c.wrong[pointerTo(here)] {
				kept[key] = c.clean(member, here)
			}
		}
		return kept
	case []any:
		kept := make([]any, len(value))
		for i, entry := range value {
			here := append(slices.Clip(at), strconv.Itoa(i))
			if !c.wrong[pointerTo(here)] {
				kept[i] = c.clean(entry, here)
			}
		}
		return kept
	case json.Number:
		return plain(value)
	default:
		return value
	}
}

// plain writes a number that is an integer as one: for JSON Schema 60.0 and 6e1
// are integers too, encoding/json refuses them. Others stay as they are.
func plain(number json.Number) json.Number {
	const exact = 1 << 53
	value, err := number.Float64()
	if err != nil || value != math.Trunc(value) || math.Abs(value) > exact {
		return number
	}
	return json.Number(strconv.FormatInt(int64(value), 10))
}

// replaceBody makes value the body that is read next, as application/json
// whatever it was called.
func replaceBody(r *http.Request, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode the checked body: %w", err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
	r.Header.Set("Content-Type", "application/json")
	return nil
}
