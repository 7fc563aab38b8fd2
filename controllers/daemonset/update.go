package daemonset

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/kapok-dev/kapok/controllers/internal/pod"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// roll takes the next step of a rolling update: it returns the nodes that get a pod beside their
// old one, and the pods that are to be deleted. All nodes that fit have a pod.
func (o *round) roll() (create []string, remove []*corev1.Pod, err error) {
	desired := o.desired()
	unavailable, surge, err := o.limits(desired)
	if err != nil {
		return nil, nil, err
	}
	if surge == 0 {
		return nil, o.replace(unavailable), nil
	}
	create, remove = o.surge(surge, desired)
	return create, remove, nil
}

// limits returns how many of the pods an update may take away at once, and how many it may add. If
// both are 0, one may be taken away.
func (o *round) limits(desired int) (unavailable, surge int, err error) {
	if r := o.set.Spec.UpdateStrategy.RollingUpdate; r != nil {
		if unavailable, err = intstr.GetScaledValueFromIntOrPercent(r.MaxUnavailable, desired, true); err != nil {
			return 0, 0, fmt.Errorf("invalid value for MaxUnavailable: %w", err)
		}
	}
	if surge, err = o.maxSurge(desired); err != nil {
		return 0, 0, fmt.Errorf("invalid value for MaxSurge: %w", err)
	}
	if desired > 0 && unavailable == 0 && surge == 0 {
		unavailable = 1
	}
	return unavailable, surge, nil
}

func (o *round) maxSurge(desired int) (int, error) {
	strategy := &o.set.Spec.UpdateStrategy
	if strategy.Type != appsv1.RollingUpdateDaemonSetStrategyType || strategy.RollingUpdate == nil || strategy.RollingUpdate.MaxSurge == nil {
		return 0, nil
	}
	return intstr.GetScaledValueFromIntOrPercent(strategy.RollingUpdate.MaxSurge, desired, true)
}

// surges reports whether a node may have two pods during an update.
func (o *round) surges() bool {
	n, err := o.maxSurge(1)
	return err == nil && n > 0
}

// replace returns the old pods that are to be deleted, so that the next reconcile creates others:
// those that are not available, and as many of the others as may be unavailable. A node without a
// pod, or whose pods are all being deleted, counts as unavailable.
func (o *round) replace(maxUnavailable int) (remove []*corev1.Pod) {
	unavailable := 0
	var candidates []*corev1.Pod
	for _, node := range o.updated() {
		current, old, ok := o.versions(node)
		switch {
		case !ok, (current == nil) == (old == nil):
			unavailable++ // another reconcile repairs this node
		case current != nil:
			if !o.isAvailable(current) {
				unavailable++
			}
		case !o.isAvailable(old):
			remove = append(remove, old)
			unavailable++
		default:
			candidates = append(candidates, old)
		}
	}
	return append(remove, candidates[:min(len(candidates), max(0, maxUnavailable-unavailable))]...)
}

// updated returns the nodes that an update concerns, in order: those that should have a pod, and
// those that have one.
func (o *round) updated() []string {
	all := map[string]bool{}
	for node := range o.pods {
		all[node] = true
	}
	for _, node := range o.nodes {
		if node.runs {
			all[node.name] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// versions returns the pod of a node with the revision of the template, and the one with another,
// as far as they are not being deleted. It is false if there is more than one of either.
func (o *round) versions(node string) (current, old *corev1.Pod, ok bool) {
	for _, p := range undeleted(o.pods[node]) {
		switch isCurrent := o.isUpdated(p); {
		case isCurrent && current == nil:
			current = p
		case !isCurrent && old == nil:
			old = p
		default:
			return nil, nil, false
		}
	}
	return current, old, true
}

// isUpdated reports whether a pod has the revision of the template.
func (o *round) isUpdated(p *corev1.Pod) bool {
	return p.Labels[appsv1.DefaultDaemonSetUniqueLabelKey] == o.hash || o.generation != "" && p.Labels[generationLabel] == o.generation
}

// templateGeneration returns the number of the template in the annotation from the time before
// apps/v1, which the server still maintains; "" if there is none that is a number.
func templateGeneration(set *appsv1.DaemonSet) string {
	n, err := strconv.ParseInt(set.Annotations[appsv1.DeprecatedTemplateGeneration], 10, 64)
	if err != nil {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// isAvailable reports whether a pod has been ready for minReadySeconds.
func (o *round) isAvailable(p *corev1.Pod) bool {
	available, _ := pod.Available(p, o.set.Spec.MinReadySeconds, o.now)
	return available
}
