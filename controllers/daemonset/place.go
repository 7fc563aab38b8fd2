package daemonset

import (
	"cmp"
	"slices"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// A template is the part of a set's pods that determines the matching nodes.
type template struct {
	nodeName    string
	tolerations []corev1.Toleration
	affinity    nodeaffinity.RequiredNodeAffinity
}

func templateOf(set *appsv1.DaemonSet) *template {
	spec := &set.Spec.Template.Spec
	return &template{
		nodeName:    spec.NodeName,
		tolerations: tolerationsOf(spec),
		affinity:    nodeaffinity.NewRequiredNodeAffinity(spec.NodeSelector, spec.Affinity),
	}
}

// fits is the result of matching a node with a set.
type fits struct {
	runs  bool // the node should have a pod
	stays bool // a pod that it has stays
}

// on returns what a node is to the set. A taint NoSchedule keeps new pods away, and a taint
// NoExecute all pods, unless they tolerate it.
func (t *template) on(n *corev1.Node) fits {
	if t.nodeName != "" && t.nodeName != n.Name {
		return fits{}
	}
	// Match returns an error for terms that it cannot evaluate. The others count, as in Kubernetes.
	if ok, _ := t.affinity.Match(n); !ok {
		return fits{}
	}
	switch {
	case t.repelled(n, corev1.TaintEffectNoExecute):
		return fits{}
	case t.repelled(n, corev1.TaintEffectNoSchedule):
		return fits{stays: true}
	}
	return fits{runs: true, stays: true}
}

// repelled reports whether a node has a taint with this effect that the pods do not tolerate.
func (t *template) repelled(n *corev1.Node, effect corev1.TaintEffect) bool {
	hasEffect := func(taint *corev1.Taint) bool { return taint.Effect == effect }
	// The last argument is the gate TaintTolerationComparisonOperators, which is off in 1.37.
	_, found := scheduling.FindMatchingUntoleratedTaint(logr.Discard(), n.Spec.Taints, t.tolerations, hasEffect, false)
	return found
}

// placed is a node with its result for the set of a round.
type placed struct {
	name string
	fits
}

// place computes the results of all nodes for the set.
func (o *round) place(nodes []*corev1.Node) {
	t := templateOf(o.set)
	o.nodes, o.places = make([]placed, 0, len(nodes)), make(map[string]fits, len(nodes))
	for _, n := range nodes {
		f := t.on(n)
		o.nodes = append(o.nodes, placed{n.Name, f})
		o.places[n.Name] = f
	}
	slices.SortFunc(o.nodes, func(a, b placed) int { return cmp.Compare(a.name, b.name) })
}

// desired returns the number of nodes that should have a pod.
func (o *round) desired() (n int) {
	for _, node := range o.nodes {
		if node.runs {
			n++
		}
	}
	return n
}
