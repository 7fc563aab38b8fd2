package place

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

func TestLabelSet(t *testing.T) {
	for _, set := range []map[string]string{nil, {"a": "1"}, {"a": "", "b": "a", "example.com/c": "1"}, {"b": "a"}} {
		got := newLabelSet(set)
		if got != newLabelSet(labels.Merge(nil, set)) || got.empty() != (len(set) == 0) {
			t.Errorf("%v: two sets differ, or the set is not as empty as its map", set)
		}
		for _, key := range []string{"a", "b", "example.com/c", "1", ""} {
			want, has := set[key]
			if value, exists := got.Lookup(key); value != want || exists != has || got.Has(key) != has || got.Get(key) != want {
				t.Errorf("%v: label %q is %q, %v", set, key, value, exists)
			}
		}
	}
}

// TestLoad checks which object a pod on a node has.
func TestLoad(t *testing.T) {
	c := NewCluster(1)
	p := newTestPod("p", on("a"))
	stored := p
	c.LoadPods(func(key types.NamespacedName) *corev1.Pod {
		if key.String() != "default/p" {
			t.Errorf("pod %s is loaded", key)
		}
		return stored
	})
	c.SetNode(newNode("a", func(n *corev1.Node) { n.Annotations = map[string]string{"k": "v"} }))
	c.SetPod(p)
	n := c.Node("a")
	if n.Object.Annotations != nil || n.Pods[0].Object != nil {
		t.Errorf("objects are kept: %v, %v", n.Object, n.Pods[0].Object)
	}
	if got := n.Pods[0].Load(); got != p {
		t.Errorf("the object is %v", got)
	}
	other := p.DeepCopy()
	other.UID = "another"
	for _, stored = range []*corev1.Pod{nil, other} {
		if got := n.Pods[0].Load(); got != nil {
			t.Errorf("the object is %v, of another pod", got)
		}
	}
}
