package podip

import (
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAddresses(t *testing.T) {
	a := New()
	if got := a.Of("1", nil); !slices.Equal(got, []string{"10.0.0.1"}) || !slices.Equal(a.Of("1", nil), got) {
		t.Error(got)
	}
	small := []string{"192.168.0.0/30", "fd00::/126"}
	if got := a.Of("2", small); !slices.Equal(got, []string{"192.168.0.1", "fd00::1"}) {
		t.Error(got)
	}
	a.Of("3", small)
	if got := a.Of("4", small[:1]); got != nil {
		t.Errorf("%v from a range that is exhausted", got)
	}
	a.Release("2")
	if got := a.Of("4", small[:1]); !slices.Equal(got, []string{"192.168.0.1"}) {
		t.Error(got)
	}
	seen := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "5"}, Status: corev1.PodStatus{PodIP: "10.0.0.2", PodIPs: []corev1.PodIP{{IP: "10.0.0.2"}}}}
	a.Observe(seen)
	if got := a.Of("6", nil); !slices.Equal(got, []string{"10.0.0.3"}) {
		t.Error(got)
	}
	seen.Status.Phase = corev1.PodFailed
	a.Observe(seen)
	if len(a.pods["5"]) > 0 {
		t.Error("an ended pod keeps its address")
	}
}

// TestReserve has a range with one address that pods can have.
func TestReserve(t *testing.T) {
	a := New()
	a.Reserve(netip.MustParseAddr("10.0.0.1"))
	if got := a.Of("one", []string{"10.0.0.0/30"}); len(got) != 1 || got[0] != "10.0.0.2" {
		t.Errorf("got %q, want 10.0.0.2", got)
	}
	if got := a.Of("two", []string{"10.0.0.0/30"}); len(got) > 0 {
		t.Errorf("got %q, want none", got)
	}
}
