package tolerations

import (
	"testing"

	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"
)

const (
	exists = corev1.TolerationOpExists
	equal  = corev1.TolerationOpEqual
	no     = corev1.TaintEffectNoSchedule
	never  = corev1.TaintEffectNoExecute
)

func TestCovers(t *testing.T) {
	for _, tc := range []struct {
		name    string
		wide, t corev1.Toleration
		want    bool
	}{
		{"itself", corev1.Toleration{Key: "a", Value: "b"}, corev1.Toleration{Key: "a", Value: "b"}, true},
		{"everything", corev1.Toleration{Operator: exists}, corev1.Toleration{Key: "a", Operator: equal, Value: "b", Effect: no}, true},
		{"another key", corev1.Toleration{Key: "a", Operator: exists}, corev1.Toleration{Key: "b", Operator: exists}, false},
		{"all values", corev1.Toleration{Key: "a", Operator: exists}, corev1.Toleration{Key: "a", Operator: equal, Value: "b"}, true},
		{"another value", corev1.Toleration{Key: "a", Operator: equal, Value: "c"}, corev1.Toleration{Key: "a", Operator: equal, Value: "b"}, false},
		{"the value by default", corev1.Toleration{Key: "a", Value: "b"}, corev1.Toleration{Key: "a", Operator: equal, Value: "b"}, true},
		{"an operator that is not spelled out", corev1.Toleration{Key: "a", Operator: equal, Value: "b"}, corev1.Toleration{Key: "a", Value: "b"}, false},
		{"all effects", corev1.Toleration{Key: "a", Operator: exists}, corev1.Toleration{Key: "a", Operator: exists, Effect: no}, true},
		{"one effect", corev1.Toleration{Key: "a", Operator: exists, Effect: no}, corev1.Toleration{Key: "a", Operator: exists}, false},
		{"less time", corev1.Toleration{Key: "a", Operator: exists, Effect: never, TolerationSeconds: ptr.To(int64(5))},
			corev1.Toleration{Key: "a", Operator: exists, Effect: never, TolerationSeconds: ptr.To(int64(4))}, true},
		{"more time", corev1.Toleration{Key: "a", Operator: exists, Effect: never, TolerationSeconds: ptr.To(int64(5))},
			corev1.Toleration{Key: "a", Operator: exists, Effect: never, TolerationSeconds: ptr.To(int64(6))}, false},
		{"all time", corev1.Toleration{Key: "a", Operator: exists, Effect: never, TolerationSeconds: ptr.To(int64(5))},
			corev1.Toleration{Key: "a", Operator: exists, Effect: never}, false},
		{"an unknown operator", corev1.Toleration{Key: "a", Operator: corev1.TolerationOpLt}, corev1.Toleration{Key: "a", Operator: exists}, false},
	} {
		if got := Covers(tc.wide, tc.t); got != tc.want {
			t.Errorf("%s: covers %t, want %t", tc.name, got, tc.want)
		}
	}
}

// TestAdd checks that of tolerations of which one covers another only the wider one is left, and of
// equal ones the first.
func TestAdd(t *testing.T) {
	spec := resource.Tree{"tolerations": []any{
		resource.Tree{"key": "a", "operator": "Equal", "value": "x"},
		resource.Tree{"key": "b", "operator": "Exists"},
	}}
	if err := Add(spec, []corev1.Toleration{{Key: "b", Operator: exists}, {Key: "a", Operator: exists}, {Key: "b", Operator: equal, Value: "y"}}); err != nil {
		t.Fatal(err)
	}
	want := []corev1.Toleration{{Key: "b", Operator: exists}, {Key: "a", Operator: exists}}
	if got, err := Of(spec); err != nil || !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	empty := resource.Tree{"tolerations": []any{}}
	if err := Add(empty, nil); err != nil || empty["tolerations"] != nil {
		t.Errorf("got %v, %v", empty, err)
	}
	if err := Add(resource.Tree{"tolerations": "x"}, nil); err == nil {
		t.Error("a text was accepted as tolerations")
	}
}
