package place

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func newNode(name string, edit ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
	n.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	for _, e := range edit {
		e(n)
	}
	return n
}

func newTestPod(name string, edit ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), Labels: map[string]string{"app": "web"}}}
	p.Spec.Containers = []corev1.Container{{Name: "c", Image: "web:1", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi"),
	}}}}
	for _, e := range edit {
		e(p)
	}
	return p
}

// TestMessage checks the message for a pod without a feasible node.
func TestMessage(t *testing.T) {
	c := NewCluster(1)
	profile := DefaultProfile()
	if got := c.Place(newTestPod("p"), profile).Message(); got != "no nodes available to schedule pods" {
		t.Errorf("without nodes: %s", got)
	}
	c.SetNode(newNode("off", func(n *corev1.Node) { n.Spec.Unschedulable = true }))
	c.SetNode(newNode("tainted", func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
	}))
	c.SetNode(newNode("small", func(n *corev1.Node) {
		n.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("50m")
		n.Status.Allocatable[corev1.ResourceMemory] = resource.MustParse("1Mi")
	}))
	want := "0/3 nodes are available: 1 Insufficient cpu, 1 Insufficient memory, 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable."
	if got := c.Place(newTestPod("p"), profile).Message(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestSpreads checks that pods of a class are placed one by one on nodes that have few of them.
func TestSpreads(t *testing.T) {
	c := NewCluster(1)
	for i := range 4 {
		c.SetNode(newNode(fmt.Sprint("n", i)))
	}
	counts, profile := map[string]int{}, DefaultProfile()
	for i := range 40 {
		p := newTestPod(fmt.Sprint("p", i))
		d := c.Place(p, profile)
		counts[d.Node]++
		c.Assume(p, d.Node)
	}
	for name, count := range counts {
		if count != 10 {
			t.Errorf("%s has %d pods, want 10", name, count)
		}
	}
	if len(c.classes) != 1 {
		t.Errorf("the pods are of %d classes, want 1", len(c.classes))
	}
}
