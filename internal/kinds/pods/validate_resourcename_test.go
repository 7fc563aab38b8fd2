package pods

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestResourceNames checks whether names are valid in the limit ranges of claims, in quotas, and in
// containers.
func TestResourceNames(t *testing.T) {
	for _, c := range []struct {
		name                        corev1.ResourceName
		known, inQuota, ofContainer bool
	}{
		{"cpu", true, true, true},
		{"storage", true, false, false},
		{"pods", true, true, false},
		{"requests.cpu", true, true, false},
		{"hugepages-2Mi", true, true, true},
		{"requests.hugepages-2Mi", true, true, false},
		{"gpu", false, false, false},
		{"a b", false, false, false},
		{"example.com/gpu", true, true, true},
		{"requests.example.com/gpu", true, true, false},
		{"count/pods", true, true, true},
		{"kubernetes.io/x", true, true, true},
	} {
		got := [3]bool{
			len(ValidateKnownResource(c.name, nil)) == 0, len(ValidateQuotaResource(c.name, nil)) == 0, len(ValidateContainerResource(c.name, nil)) == 0,
		}
		if want := [3]bool{c.known, c.inQuota, c.ofContainer}; got != want {
			t.Errorf("%s: got %v, want %v", c.name, got, want)
		}
	}
}
