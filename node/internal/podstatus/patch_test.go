package podstatus

import (
	"encoding/json"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// TestAddressChanges applies the patch between two lists of addresses, as a server does.
func TestAddressChanges(t *testing.T) {
	for _, test := range []struct{ old, now []corev1.PodIP }{
		{nil, []corev1.PodIP{{IP: "127.77.0.1"}}},
		{[]corev1.PodIP{{IP: "127.77.0.1"}}, []corev1.PodIP{{IP: "127.77.0.2"}}},
		{[]corev1.PodIP{{IP: "127.77.0.1"}, {IP: "fd00::1"}}, []corev1.PodIP{{IP: "127.77.0.1"}, {IP: "fd00::2"}}},
		{[]corev1.PodIP{{IP: "127.77.0.1"}}, nil},
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Status: corev1.PodStatus{PodIPs: test.old}}
		patch, err := Patch(p, &corev1.PodStatus{PodIPs: test.now})
		if err != nil {
			t.Fatal(err)
		}
		before, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		after, err := strategicpatch.StrategicMergePatch(before, patch, &corev1.Pod{})
		if err != nil {
			t.Fatal(err)
		}
		var got corev1.Pod
		if err := json.Unmarshal(after, &got); err != nil || !slices.Equal(got.Status.PodIPs, test.now) {
			t.Errorf("from %v: got %v, %v, want %v", test.old, got.Status.PodIPs, err, test.now)
		}
	}
}
