package pod

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// SortForDeletion sorts the active pods of a set: those that a smaller set can best do without come
// first. related are the pods of all sets with the same owner: where many of them share a node, one
// can go.
//
// The order is Kubernetes': pods without a node, then those in an earlier phase, not ready, with a
// lower deletion cost (KEP-2255), on nodes with more pods of related, ready for a shorter time,
// with more restarts, younger. Times are compared by the logarithm of the age (KEP-2185), so that
// of pods of similar age not always the youngest goes; then the uid decides.
func SortForDeletion(pods, related []*corev1.Pod, now time.Time) {
	onNode := map[string]int{}
	for _, p := range related {
		if Active(p) {
			onNode[p.Spec.NodeName]++
		}
	}
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(
			before(a.Spec.NodeName == "", b.Spec.NodeName == ""),
			cmp.Compare(progress(a), progress(b)),
			before(!Ready(a), !Ready(b)),
			cmp.Compare(deletionCost(a), deletionCost(b)),
			cmp.Compare(onNode[b.Spec.NodeName], onNode[a.Spec.NodeName]),
			byAge(a, b, readySince(a), readySince(b), now),
			cmp.Compare(restarts(b.Status.ContainerStatuses, nil), restarts(a.Status.ContainerStatuses, nil)),
			cmp.Compare(sidecarRestarts(b), sidecarRestarts(a)),
			byAge(a, b, a.CreationTimestamp.Time, b.CreationTimestamp.Time, now),
		)
	})
}

// SortByProgress sorts active pods: those that have done the least come first. That is the order of
// SortForDeletion without cost and nodes, and with exact times.
func SortByProgress(pods []*corev1.Pod) {
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(
			before(a.Spec.NodeName == "", b.Spec.NodeName == ""),
			cmp.Compare(progress(a), progress(b)),
			before(!Ready(a), !Ready(b)),
			latestFirst(readySince(a), readySince(b)),
			cmp.Compare(restarts(b.Status.ContainerStatuses, nil), restarts(a.Status.ContainerStatuses, nil)),
			cmp.Compare(sidecarRestarts(b), sidecarRestarts(a)),
			latestFirst(a.CreationTimestamp.Time, b.CreationTimestamp.Time),
		)
	})
}

// latestFirst orders times: an unknown one first, then the later one.
func latestFirst(a, b time.Time) int {
	if a.IsZero() || b.IsZero() {
		return before(a.IsZero(), b.IsZero())
	}
	return b.Compare(a)
}

// before orders true before false.
func before(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// progress orders phases.
func progress(p *corev1.Pod) int {
	switch p.Status.Phase {
	case corev1.PodUnknown:
		return 1
	case corev1.PodRunning:
		return 2
	}
	return 0
}

// deletionCost returns the value of the annotation; 0 if there is none, or none that is valid.
func deletionCost(p *corev1.Pod) int32 {
	text := p.Annotations[corev1.PodDeletionCost]
	if strings.HasPrefix(text, "+") || len(text) > 1 && text[0] == '0' {
		return 0 // strconv takes them, Kubernetes does not
	}
	cost, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0
	}
	return int32(cost)
}

// byAge orders pods by times: an unknown time first, then the later one, by magnitude.
func byAge(a, b *corev1.Pod, timeA, timeB, now time.Time) int {
	if timeA.Equal(timeB) {
		return 0
	}
	if timeA.IsZero() || timeB.IsZero() {
		return before(timeA.IsZero(), timeB.IsZero())
	}
	return cmp.Or(cmp.Compare(magnitude(now.Sub(timeA)), magnitude(now.Sub(timeB))), cmp.Compare(a.UID, b.UID))
}

func magnitude(age time.Duration) int64 {
	if age <= 0 {
		return -1
	}
	return int64(math.Log2(float64(age)))
}

// restarts returns the highest number of restarts of the containers with these names; nil is all.
func restarts(statuses []corev1.ContainerStatus, names map[string]bool) (most int32) {
	for _, s := range statuses {
		if names == nil || names[s.Name] {
			most = max(most, s.RestartCount)
		}
	}
	return most
}

func sidecarRestarts(p *corev1.Pod) int32 {
	sidecars := map[string]bool{}
	for _, c := range p.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sidecars[c.Name] = true
		}
	}
	return restarts(p.Status.InitContainerStatuses, sidecars)
}
