package api

import (
	"fmt"
	"hash/fnv"
	"regexp"
	"strconv"

	"github.com/berth-backup/berth"
)

const ifMatchHeader = "If-Match"

// entityTag is a strong one: the version, and a hash of the body, since a pause
// that ends by itself changes what is shown and not the version.
func entityTag(version int64, body []byte) string {
	hash := fnv.New32a()
	_, _ = hash.Write(body) // a hash takes everything
	return fmt.Sprintf(`"%d.%08x"`, version, hash.Sum32())
}

var (
	// anyEntityTag is one entity tag (RFC 9110, section 8.8.3).
	anyEntityTag = regexp.MustCompile(`\A(W/)?"[\x21\x23-\x7E\x80-\xFF]*"\z`)
	// ourEntityTag is one that entityTag could have made.
	ourEntityTag = regexp.MustCompile(`\A"([0-9]{1,18})(\.[0-9a-f]{8})?"\z`)
)

// versionMatched reads If-Match: the version that the client has read, nil for *.
// The hash does not count: what it shows beside the version nobody has changed.
// A tag that is weak, or none of ours, matches nothing.
func versionMatched(header *string) (*int64, error) {
	if header == nil {
		return nil, berth.Errorf(berth.CodePreconditionRequired,
			`Read the settings first and send their ETag as If-Match (curl: -H 'If-Match: "7.9f86d081"'), or * for whatever they are.`)
	}
	ifMatch := *header
	if ifMatch == "*" {
		return nil, nil
	}
	if !anyEntityTag.MatchString(ifMatch) {
		return nil, malformedParameter(ifMatchHeader, "invalid", `must be * or one entity tag as it was in ETag, quotes included, such as "7.9f86d081"`)
	}
	tag := ourEntityTag.FindStringSubmatch(ifMatch)
	if tag == nil {
		return nil, berth.Errorf(berth.CodePreconditionFailed, "The settings have never had the entity tag %s.", ifMatch)
	}
	version, err := strconv.ParseInt(tag[1], 10, 64)
	if err != nil {
		return nil, fmt.Errorf("read a version of %s: %w", tag[1], err)
	}
	return &version, nil
}
