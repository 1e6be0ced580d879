package berth

import (
	"crypto/sha256"
	"encoding/hex"

	"k8s.io/apimachinery/pkg/util/validation"
)

// LabelValue makes a label's value of a name as Velero does: longer ones keep
// their first 57 characters and six hexadecimal digits of their SHA-256.
func LabelValue(name string) string {
	if len(name) <= validation.LabelValueMaxLength {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return name[:validation.LabelValueMaxLength-6] + hex.EncodeToString(sum[:])[:6]
}
