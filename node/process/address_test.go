package process

import (
	"testing"

	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/workqueue"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestAddressesAfterRestart reconciles a pod without an address before one that has had its address
// from the node before a restart: each address is that of one pod, and none changes.
func TestAddressesAfterRestart(t *testing.T) {
	o, err := Options{Name: "machine", Dir: t.TempDir()}.complete()
	if err != nil {
		t.Fatal(err)
	}
	p := newPodsWithoutRuntime(o)
	defer p.cancel()
	queue := workqueue.New(workqueue.Options[handler.Request]{})
	defer queue.ShutDown()
	newPod := func(name, ip string) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: corev1.PodSpec{NodeName: "machine"}}
		if pod.Status.PodIP = ip; ip != "" {
			pod.Status.PodIPs = []corev1.PodIP{{IP: ip}}
		}
		return pod
	}
	young, old := newPod("young", ""), newPod("old", "127.77.0.1")
	for _, pod := range []*corev1.Pod{young, old} { // what the cache delivers before the first call of Reconcile
		p.podEvents().Create(t.Context(), handler.CreateEvent{Object: pod}, queue)
	}
	first := p.addressOf(young)
	if first == old.Status.PodIP || !p.inPods(first) {
		t.Errorf("the address of the new pod is %s, want one that no other pod has", first)
	}
	if got := p.addressOf(old); got != old.Status.PodIP {
		t.Errorf("the address of the other pod is %s, want %s as before", got, old.Status.PodIP)
	}
}
