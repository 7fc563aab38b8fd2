package daemonset

import corev1 "k8s.io/api/core/v1"

// surge returns the nodes that get a pod of the revision beside an old one, and the old pods that
// are to be deleted.
//
//   - An old pod goes when the new one of its node is available.
//   - A node whose old pod is not available gets a new one at once; of the others, so many that
//     maxSurge new pods are not available yet.
//   - On a node that no longer fits, an unavailable old pod goes at once, and an available one as
//     soon as there are more available pods than nodes that fit.
func (o *round) surge(maxSurge, desired int) (create []string, remove []*corev1.Pod) {
	surging, available := 0, 0
	var candidates []string
	var leaving []*corev1.Pod
	for _, node := range o.updated() {
		current, old, ok := o.versions(node)
		if !ok {
			surging++ // another reconcile repairs this node
			continue
		}
		if first := oldOr(old, current); first != nil && o.isAvailable(first) {
			available++
		}
		switch runs := o.places[node].runs; {
		case old == nil:
		case current != nil && o.isAvailable(current):
			remove = append(remove, old)
		case current != nil:
			surging++
		case !runs && o.isAvailable(old):
			leaving = append(leaving, old)
		case !runs:
			remove = append(remove, old)
		case o.isAvailable(old):
			candidates = append(candidates, node)
		default:
			create = append(create, node)
		}
	}
	remove = append(remove, leaving[:min(len(leaving), max(0, available-desired))]...)
	return append(create, candidates[:min(len(candidates), max(0, maxSurge-surging))]...), remove
}

func oldOr(old, current *corev1.Pod) *corev1.Pod {
	if old != nil {
		return old
	}
	return current
}
