package pods

import (
	"strings"
	"testing"

	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestSystemPrefix(t *testing.T) {
	for _, c := range []struct {
		class schedulingv1.PriorityClass
		want  string
	}{
		{systemPriorityClasses()[0], ""},
		{systemPriorityClasses()[1], ""},
		{schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "system-node-critical"}, Value: 1}, "metadata.name"},
		{schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "system-x"}, Value: 1}, "metadata.name"},
		{schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Value: highestUserPriority}, ""},
		{schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Value: highestUserPriority + 1}, "value"},
	} {
		if got := fields(validatePriorityClass(&c.class, nil)); got != c.want {
			t.Errorf("%s of %d: got %q, want %q", c.class.Name, c.class.Value, got, c.want)
		}
	}
}

// fields returns the paths of errors, in their order.
func fields(errs field.ErrorList) string {
	var paths []string
	for _, err := range errs {
		paths = append(paths, err.Field)
	}
	return strings.Join(paths, " ")
}
