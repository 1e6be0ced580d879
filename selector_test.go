package berth_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-backup/berth"
)

func TestSelectorErrorsPointToTheirField(t *testing.T) {
	t.Parallel()
	spec := berth.Spec{OrLabelSelectors: []*metav1.LabelSelector{{
		MatchLabels: map[string]string{"a/b/c": "x"},
		MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "tier", Operator: metav1.LabelSelectorOpIn},
			{Key: "tier", Operator: "Near"},
			{Key: "tier", Operator: metav1.LabelSelectorOpIn, Values: []string{"ok", "not ok"}},
		},
	}}}
	var pointers []string
	for _, problem := range spec.Validate() {
		pointers = append(pointers, problem.Pointer)
	}
	want := []string{
		"/orLabelSelectors/0/matchLabels/a~1b~1c",
		"/orLabelSelectors/0/matchExpressions/0/values",
		"/orLabelSelectors/0/matchExpressions/1/operator",
		"/orLabelSelectors/0/matchExpressions/2/values/1",
	}
	if diff := cmp.Diff(want, pointers); diff != "" {
		t.Errorf("pointers (-want +got):\n%s", diff)
	}
}
