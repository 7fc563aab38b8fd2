package framework

import (
	"iter"

	"github.com/kapok-dev/kapok/scheduler/place"

	corev1 "k8s.io/api/core/v1"
)

// Resources are amounts of CPU, memory and others. Plugins must not change their maps.
type Resources = place.Resources

// A NodeInfo is a node with its pods, as the scheduler counts them: those that are bound to it, and
// those whose binding is under way. It is valid until the method returns to which it was passed.
// Its objects must not be changed.
type NodeInfo struct{ node *place.Node }

// NewNodeInfo returns a node with pods. It is for tests of plugins.
func NewNodeInfo(node *corev1.Node, pods ...*corev1.Pod) NodeInfo {
	return Info(place.NewNode(node, pods...))
}

// Info returns the NodeInfo of a node. The scheduler calls it.
func Info(n *place.Node) NodeInfo { return NodeInfo{n} }

// Infos returns the NodeInfos of nodes. The scheduler calls it.
func Infos(nodes []*place.Node) []NodeInfo {
	infos := make([]NodeInfo, len(nodes))
	for i, n := range nodes {
		infos[i] = NodeInfo{n}
	}
	return infos
}

// Node returns the object.
func (n NodeInfo) Node() *corev1.Node { return n.node.Object }

// Pods returns the pods, in no particular order. Of a pod whose binding is under way,
// spec.nodeName may be empty.
func (n NodeInfo) Pods() iter.Seq[*corev1.Pod] {
	return func(yield func(*corev1.Pod) bool) {
		for _, p := range n.node.Pods {
			if o := p.Load(); o != nil && !yield(o) {
				return
			}
		}
	}
}

// PodCount returns the number of pods.
func (n NodeInfo) PodCount() int { return len(n.node.Pods) }

// Allocatable returns status.allocatable of the node.
func (n NodeInfo) Allocatable() Resources { return n.node.Allocatable }

// Requested returns the sum of the requests of the pods.
func (n NodeInfo) Requested() Resources { return n.node.Requested }
