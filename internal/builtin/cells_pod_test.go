package builtin

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestRowConditions: clients leave out pods that are done by what their rows say.
func TestRowConditions(t *testing.T) {
	for phase, want := range map[string]string{
		"Pending": "", "Running": "", "Unknown": "",
		"Succeeded": "The pod has completed successfully.",
		"Failed":    "The pod failed.",
	} {
		got := definitionOf(t, "pods").Storage.RowConditions(decode(t, "pods", `{status: {phase: `+phase+`}}`))
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
