package scheduler

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestQueue checks which pod is next, and when one that was refused is tried again.
func TestQueue(t *testing.T) {
	var q queue
	start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	set := func(name string, priority int32, seconds int) {
		q.set(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: corev1.PodSpec{Priority: &priority}}, false, at(seconds))
	}
	take := func(seconds int, want string) *pending {
		t.Helper()
		n := q.take(at(seconds))
		got := ""
		if n != nil {
			got = n.pod.Name
		}
		if got != want {
			t.Fatalf("after %d s %q is next, want %q", seconds, got, want)
		}
		return n
	}
	set("second", 0, 1)
	set("first", 0, 0)
	set("urgent", 9, 2)
	take(2, "urgent")
	q.remove("urgent")
	first := take(2, "first")
	q.fail(first, []string{"NodeName"}, at(2))
	second := take(2, "second")
	q.happened(at(2), "NodePorts") // which helps neither, but the second is being tried
	q.fail(second, []string{"NodeName"}, at(2))
	take(2, "")
	second = take(3, "second") // after its pause
	q.fail(second, []string{"NodeName"}, at(3))
	q.happened(at(3), "NodeName")
	q.fail(take(3, "first"), []string{"NodeName"}, at(3)) // its pause has passed
	take(4, "")
	q.fail(take(5, "second"), []string{"NodeName"}, at(5)) // its second pause is two seconds
	q.fail(take(3+300, "first"), nil, at(3+300))           // whatever happens
}
