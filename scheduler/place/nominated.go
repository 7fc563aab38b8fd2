package place

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A nomination is a pod for which others were preempted, and the node that it is going to get.
type nomination struct {
	pod  *Pod
	node string
}

// Nominate notes the node for which others were preempted in favour of a pod. The pod counts on
// that node when pods of the same or a lower priority are placed. It replaces the previous
// nomination of the pod; an empty node removes it.
func (c *Cluster) Nominate(object *corev1.Pod, node string) {
	if had := c.nominated[object.UID]; had != nil {
		delete(c.nominated, object.UID)
		c.nominees[had.node] = slices.DeleteFunc(c.nominees[had.node], func(p *Pod) bool { return p == had.pod })
		if len(c.nominees[had.node]) == 0 {
			delete(c.nominees, had.node)
		}
		if had.pod.affinity != nil {
			c.keepers--
		}
	}
	if node == "" {
		return
	}
	p := newPod(object)
	c.nominated[object.UID] = &nomination{p, node}
	c.nominees[node] = append(c.nominees[node], p)
	if p.affinity != nil {
		c.keepers++
	}
}

// Nominated returns the node that a pod is nominated for, or "".
func (c *Cluster) Nominated(uid types.UID) string {
	if n := c.nominated[uid]; n != nil {
		return n.node
	}
	return ""
}

// LowerNominees returns the pods with a lower priority than p that are nominated for a node.
func (c *Cluster) LowerNominees(p *corev1.Pod, node string) (lower []*corev1.Pod) {
	for _, other := range c.nominees[node] {
		if other.priority < Priority(p) {
			lower = append(lower, other.Object)
		}
	}
	return lower
}

// withNominees returns a copy of a node with the pods that are nominated for it and to which p
// yields, nil if there are none.
func (c *Cluster) withNominees(n *Node, p *corev1.Pod) (with *Node) {
	for _, other := range c.nominees[n.Name] {
		if other.priority >= Priority(p) && other.UID != p.UID {
			if with == nil {
				with = n.copy()
			}
			with.add(other)
		}
	}
	return with
}

// Priority returns the priority of a pod.
func Priority(p *corev1.Pod) int32 {
	if p.Spec.Priority != nil {
		return *p.Spec.Priority
	}
	return 0
}

// copy returns a node to and from which pods can be added and removed without effect on n.
func (n *Node) copy() *Node {
	c := *n
	c.Pods, c.ports, c.Requested.Others = slices.Clone(n.Pods), maps.Clone(n.ports), maps.Clone(n.Requested.Others)
	return &c
}

// refusalIf returns why a node would not be feasible if it were like n, nil if it would be. Until
// restore is called with the real node, the class remembers n.
func (k *class) refusalIf(n *Node) *Refusal {
	for i := range k.rules {
		if w := k.rules[i].Wide; w != nil {
			w.Follow(n)
			w.Begin()
		}
	}
	for i := range k.rules {
		r := &k.rules[i]
		if r.Filter != nil {
			if no := r.Filter(n); no != nil {
				return no
			}
		}
		if r.Wide != nil {
			if no := r.Wide.Filter(n); no != nil {
				return no
			}
		}
	}
	return nil
}

// restore ends calls of refusalIf.
func (k *class) restore(n *Node) {
	for i := range k.rules {
		if w := k.rules[i].Wide; w != nil {
			w.Follow(n)
			w.Begin()
		}
	}
}

// refusedForNominees returns why a pod cannot have a node because of the pods that are nominated
// for it.
func (c *Cluster) refusedForNominees(k *class, n *Node, p *corev1.Pod) *Refusal {
	if len(c.nominees) == 0 {
		return nil
	}
	with := c.withNominees(n, p)
	if with == nil {
		return nil
	}
	defer k.restore(n)
	return k.refusalIf(with)
}
