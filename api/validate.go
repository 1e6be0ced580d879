package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/pb33f/jsonschema/v6"
	"github.com/pb33f/jsonschema/v6/kind"
	"github.com/pb33f/libopenapi"
	"github.com/pb33f/libopenapi-validator/config"
	"github.com/pb33f/libopenapi-validator/schema_validation"
	"github.com/pb33f/libopenapi/datamodel/high/base"
	v3 "github.com/pb33f/libopenapi/datamodel/high/v3"

	"github.com/berth-backup/berth"
)

// contract is openapi.yaml, ready to judge requests: each operation by its
// method and path template, such as "GET /backups/{id}". This file alone knows
// the libraries that read it.
type contract struct {
	operations map[string]operation
}

type operation struct {
	query map[string]parameter
	// body is nil where the operation takes none.
	body *body
}

// body is what an operation takes: JSON of one schema.
type body struct {
	schema *jsonschema.Schema
	// mediaTypes are the names that it may go by.
	mediaTypes []string
	// patch is true for a JSON merge patch, where null is a value.
	patch bool
	// optional is true where an empty object may be left out.
	optional bool
}

type parameter struct {
	schema *jsonschema.Schema
	// convert makes of the parameter's text what its schema judges.
	convert func(text string) any
}

// openAPI reads the contract once. It panics if openapi.yaml, which is part of
// the program, cannot be read.
var openAPI = sync.OnceValue(func() *contract {
	c, err := readContract(berth.OpenAPI)
	if err != nil {
		panic(fmt.Sprintf("openapi.yaml: %v", err))
	}
	return c
})

func readContract(document []byte) (*contract, error) {
	parsed, err := libopenapi.NewDocument(document)
	if err != nil {
		return nil, err
	}
	model, err := parsed.BuildV3Model()
	if err != nil {
		return nil, err
	}
	c := &contract{operations: map[string]operation{}}
	for path, item := range model.Model.Paths.PathItems.FromOldest() {
		for method, declared := range item.GetOperations().FromOldest() {
			name := strings.ToUpper(method) + " " + path
			if c.operations[name], err = readOperation(declared); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return c, nil
}

func readOperation(declared *v3.Operation) (operation, error) {
	op := operation{query: map[string]parameter{}}
	for _, p := range declared.Parameters {
		if p.In != "query" {
			continue
		}
		schema := p.Schema.Schema()
		compiled, err := compile(schema)
		if err != nil {
			return operation{}, fmt.Errorf("parameter %s: %w", p.Name, err)
		}
		op.query[p.Name] = parameter{schema: compiled, convert: converter(schema)}
	}
	if declared.RequestBody == nil {
		return op, nil
	}
	var err error
	op.body, err = readBodyOf(declared.RequestBody)
	return op, err
}

func readBodyOf(declared *v3.RequestBody) (*body, error) {
	media, ok := declared.Content.Get("application/json")
	if !ok {
		return nil, fmt.Errorf("its body is not application/json")
	}
	schema, err := compile(media.Schema.Schema())
	if err != nil {
		return nil, err
	}
	mediaTypes := slices.Collect(declared.Content.KeysFromOldest())
	return &body{
		schema: schema, mediaTypes: mediaTypes, patch: slices.Contains(mediaTypes, "application/merge-patch+json"),
		optional: declared.Required == nil || !*declared.Required,
	}, nil
}

func compile(schema *base.Schema) (*jsonschema.Schema, error) {
	options := config.NewValidationOptions(config.WithFormatAssertions(),
		config.WithCustomFormat("go-duration", checkDuration), config.WithCustomFormat("date-time", checkTime))
	compiled, err := schema_validation.CompileSchemaForValidation(schema, schema_validation.SchemaValidationPurposeRequestBody, options, 3.1)
	if err != nil {
		return nil, err
	}
	return compiled.CompiledSchema, nil
}

// checkDuration is the format go-duration: what time.ParseDuration reads.
func checkDuration(value any) error {
	text, ok := value.(string)
	if !ok {
		return nil
	}
	_, err := time.ParseDuration(text)
	return err
}

// rfc3339 is how a time is written: time.Time would also read a comma before the
// fraction and a distance of 24 hours and more.
var rfc3339 = regexp.MustCompile(`\A[0-9-]{10}T[0-9:]{8}(\.[0-9]+)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])\z`)

// checkTime is the format date-time as encoding/json reads times, narrower than
// RFC 3339: no leap second, no small letters.
func checkTime(value any) error {
	text, ok := value.(string)
	if !ok {
		return nil
	}
	if !rfc3339.MatchString(text) {
		return errors.New("not as RFC 3339 writes a time")
	}
	var at time.Time
	return at.UnmarshalText([]byte(text))
}

// converter reads the text of a parameter whose schema is an array (values
// separated by commas), an integer, a boolean or a string. Text that is none is
// left for the schema to refuse.
func converter(schema *base.Schema) func(string) any {
	switch {
	case slices.Contains(schema.Type, "array"):
		return func(text string) any {
			values := []any{}
			for value := range strings.SplitSeq(text, ",") {
				values = append(values, value)
			}
			return values
		}
	case slices.Contains(schema.Type, "integer"):
		return func(text string) any {
			if _, err := strconv.Atoi(text); err != nil {
				return text
			}
			return json.Number(text)
		}
	case slices.Contains(schema.Type, "boolean"):
		return func(text string) any {
			if text != "true" && text != "false" {
				return text
			}
			return text == "true"
		}
	}
	return func(text string) any { return text }
}

// body is what the operation takes; nil for none.
func (c *contract) body(operation string) *body { return c.operations[operation].body }

// check lists how value does not fit.
func (b *body) check(value any) []berth.FieldError { return shapeErrors(b.schema, value) }

// checkQuery is what is wrong with r's query: malformed-request for what cannot
// be told what is meant, validation-failed for values that do not fit; nil if
// nothing is.
func (c *contract) checkQuery(operation string, r *http.Request) error {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return berth.Errorf(berth.CodeMalformedRequest, "The query is not made of parameters and values with percent signs for what is special.")
	}
	declared := c.operations[operation].query
	var malformed, invalid []berth.FieldError
	for name, texts := range values {
		p, known := declared[name]
		switch {
		case !known:
			malformed = append(malformed, berth.FieldError{Parameter: name, Code: "unknown-parameter", Detail: "there is no parameter of this name here"})
		case len(texts) > 1:
			malformed = append(malformed, berth.FieldError{Parameter: name, Code: "duplicate-parameter", Detail: "stands twice"})
		case !utf8.ValidString(texts[0]) || strings.ContainsRune(texts[0], 0):
			malformed = append(malformed, berth.FieldError{Parameter: name, Code: "invalid", Detail: "must be UTF-8 without the character U+0000"})
		default:
			for _, e := range shapeErrors(p.schema, p.convert(texts[0])) {
				invalid = append(invalid, berth.FieldError{Parameter: name, Code: e.Code, Detail: e.Detail})
			}
		}
	}
	switch {
	case len(malformed) > 0:
		return refusal(berth.CodeMalformedRequest, malformed)
	case len(invalid) > 0:
		return refusal(berth.CodeValidationFailed, invalid)
	}
	return nil
}

// shapeErrors lists how value does not fit schema.
func shapeErrors(schema *jsonschema.Schema, value any) []berth.FieldError {
	err := schema.Validate(value)
	if err == nil {
		return nil
	}
	root, ok := err.(*jsonschema.ValidationError)
	if !ok {
		return []berth.FieldError{{Code: "invalid", Detail: "does not fit the contract"}}
	}
	return leaves(root)
}

// leaves are the complaints that have no others below them.
func leaves(e *jsonschema.ValidationError) []berth.FieldError {
	if len(e.Causes) > 0 {
		var found []berth.FieldError
		for _, cause := range e.Causes {
			found = append(found, leaves(cause)...)
		}
		return found
	}
	at := e.InstanceLocation
	var found []berth.FieldError
	each := func(names []string, code, detail string) {
		for _, name := range names {
			found = append(found, berth.FieldError{Pointer: pointerTo(append(slices.Clip(at), name)), Code: code, Detail: detail})
		}
	}
	switch k := e.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		each(k.Properties, "unknown-field", "there is no field of this name here")
		return found
	case *kind.Required:
		each(k.Missing, "required", "is required")
		return found
	}
	code, detail := complaint(e.ErrorKind)
	return []berth.FieldError{{Pointer: pointerTo(at), Code: code, Detail: detail}}
}

// complaint says in our words what a value does wrong.
func complaint(of jsonschema.ErrorKind) (code, detail string) {
	switch k := of.(type) {
	case *kind.Type:
		return "type", fmt.Sprintf("must be %s, not %s", orWords(k.Want), withArticle(k.Got))
	case *kind.Enum:
		return "invalid", "must be one of " + listed(k.Want)
	case *kind.Format:
		switch k.Want {
		case "go-duration":
			return "invalid", "must be a duration of hours, minutes and seconds, such as 720h0m0s"
		case "date-time":
			return "invalid", "must be a time with its distance from UTC, such as 2026-07-01T22:00:00Z"
		}
		return "invalid", "must be a " + k.Want
	case *kind.MinLength:
		return "invalid", "must not be empty"
	case *kind.MinItems:
		return "invalid", "must not be empty"
	case *kind.Minimum:
		return "invalid", "must be at least " + number(k.Want)
	case *kind.Maximum:
		return "invalid", "must be at most " + number(k.Want)
	case *kind.MaxLength:
		return "invalid", fmt.Sprintf("must have %d characters at most, not %d", k.Want, k.Got)
	case *kind.MaxItems:
		return "invalid", fmt.Sprintf("must have %d entries at most, not %d", k.Want, k.Got)
	}
	return "invalid", "does not fit the contract"
}

func orWords(types []string) string {
	var words []string
	for _, t := range types {
		if t != "null" {
			words = append(words, withArticle(t))
		}
	}
	return strings.Join(words, " or ")
}

func withArticle(jsonType string) string {
	switch jsonType {
	case "null":
		return jsonType
	case "array", "object", "integer":
		return "an " + jsonType
	}
	return "a " + jsonType
}

func listed(values []any) string {
	var words []string
	for _, v := range values {
		if v != nil {
			words = append(words, fmt.Sprint(v))
		}
	}
	return strings.Join(words, ", ")
}

func number(n *big.Rat) string { return n.RatString() }
