package pods_test

import (
	"testing"

	"github.com/kapok-dev/kapok/internal/kinds/kindtest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestRowConditions checks the conditions by which clients leave out finished pods.
func TestRowConditions(t *testing.T) {
	for phase, want := range map[string]string{
		"Pending": "", "Running": "", "Unknown": "",
		"Succeeded": "The pod has completed successfully.",
		"Failed":    "The pod failed.",
	} {
		got := kindtest.Definition(t, "pods").Storage.RowConditions(kindtest.Decode(t, "pods", `{status: {phase: `+phase+`}}`))
		if want == "" {
			if got != nil {
				t.Errorf("%s: %v", phase, got)
			}
			continue
		}
		if len(got) != 1 || got[0] != (metav1.TableRowCondition{Type: metav1.RowCompleted, Status: metav1.ConditionTrue, Reason: phase, Message: want}) {
			t.Errorf("%s: %v", phase, got)
		}
	}
}
