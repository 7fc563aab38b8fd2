package daemonset

import (
	"cmp"
	"slices"

	"github.com/kapok-dev/kapok/controllers/internal/pod"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// manage returns the nodes that need a pod, and the pods that are to be deleted, whatever their
// revision: those that have ended, that are too many, or that are on nodes which do not fit.
func (o *round) manage() (create []string, remove []*corev1.Pod) {
	surges := o.surges()
	for _, node := range o.nodes {
		pods, exists := o.pods[node.name]
		switch {
		case node.runs && !exists:
			create = append(create, node.name)
		case !node.stays:
			remove = append(remove, undeleted(pods)...)
		default:
			running, ended := o.sortOut(node.name, pods)
			remove = append(remove, ended...)
			switch {
			case !surges && len(running) > 1:
				remove = append(remove, running[1:]...)
			case surges && len(running) > 1:
				remove = append(remove, o.surplus(running)...)
			case surges && len(running) == 0 && node.runs:
				create = append(create, node.name) // beside a pod that is being deleted
			}
		}
	}
	return create, append(remove, o.stranded()...)
}

// sortOut returns the pods of a node that run or are going to, the oldest first, and those that
// have ended and are to be deleted now.
func (o *round) sortOut(node string, pods []*corev1.Pod) (running, ended []*corev1.Pod) {
	for _, p := range undeleted(pods) {
		switch p.Status.Phase {
		case corev1.PodFailed:
			at := place{o.set.UID, o.set.Status.ObservedGeneration, node}
			if wait := o.failures.wait(at, o.now); wait > 0 {
				o.waitFor(wait)
				continue
			}
			o.events.Eventf(o.set, corev1.EventTypeWarning, "FailedDaemonPod", "Found failed daemon pod %s/%s on node %s, will try to kill it", p.Namespace, p.Name, node)
			ended = append(ended, p)
		case corev1.PodSucceeded:
			o.events.Eventf(o.set, corev1.EventTypeNormal, "SucceededDaemonPod", "Found succeeded daemon pod %s/%s on node %s, will try to delete it", p.Namespace, p.Name, node)
			ended = append(ended, p)
		default:
			running = append(running, p)
		}
	}
	sortByAge(running)
	return running, ended
}

// surplus returns which of a node's running pods are too many during an update that surges. The
// oldest of the revision stays, and beside it the oldest of all others, as long as it is ready and
// the new one is not available.
func (o *round) surplus(running []*corev1.Pod) (remove []*corev1.Pod) {
	var current, old *corev1.Pod
	for _, p := range running {
		switch isCurrent := p.Labels[appsv1.DefaultDaemonSetUniqueLabelKey] == o.hash; {
		case isCurrent && current == nil:
			current = p
		case !isCurrent && old == nil:
			old = p
		default:
			remove = append(remove, p)
		}
	}
	if current != nil && old != nil && (!pod.Ready(old) || o.isAvailable(current)) {
		remove = append(remove, old)
	}
	return remove
}

// stranded returns the pods without a node whose affinity requires one that does not exist. No
// scheduler will ever find it, and the pod garbage collector only takes those of the nodes that
// pods have.
func (o *round) stranded() (remove []*corev1.Pod) {
	for _, p := range o.all {
		if p.Spec.NodeName != "" || pod.Ended(p) && p.DeletionTimestamp != nil {
			continue
		}
		if node, ok := nodeOf(p); ok {
			if _, exists := o.places[node]; !exists {
				remove = append(remove, p)
			}
		}
	}
	return remove
}

func undeleted(pods []*corev1.Pod) (some []*corev1.Pod) {
	for _, p := range pods {
		if p.DeletionTimestamp == nil {
			some = append(some, p)
		}
	}
	return some
}

// sortByAge sorts pods: those with a node first, the oldest first. Of those created in the same
// second, where the name decides in Kubernetes, the ready ones come first.
func sortByAge(pods []*corev1.Pod) {
	not := func(is bool) int {
		if is {
			return 0
		}
		return 1
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(
			cmp.Compare(not(a.Spec.NodeName != ""), not(b.Spec.NodeName != "")),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(not(pod.Ready(a)), not(pod.Ready(b))),
			cmp.Compare(a.Name, b.Name),
		)
	})
}
