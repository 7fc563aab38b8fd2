package disruption

import (
	"time"

	"github.com/kapok-dev/kapok/controllers/internal/pod"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/apps/poddisruptionbudget"
)

// patience is the time in which the deletion of a pod must follow its eviction. The server counts
// it as disrupted that long.
const patience = 2 * time.Minute

// disruptedPods returns those of status.disruptedPods that are still to be deleted, and the pods
// whose deletion has not come in time. wait is the time until the next one is late, or 0.
func disruptedPods(b *policyv1.PodDisruptionBudget, pods []*corev1.Pod, now time.Time) (disrupted map[string]metav1.Time, late []*corev1.Pod, wait time.Duration) {
	disrupted = map[string]metav1.Time{}
	for _, p := range pods {
		at, evicted := b.Status.DisruptedPods[p.Name]
		if !evicted || p.DeletionTimestamp != nil {
			continue
		}
		left := at.Add(patience).Sub(now)
		if left <= 0 {
			late = append(late, p)
			continue
		}
		disrupted[p.Name] = at
		if wait == 0 || left < wait {
			wait = left
		}
	}
	return disrupted, late, wait
}

// healthy returns the number of pods that are ready and stay.
func healthy(pods []*corev1.Pod, disrupted map[string]metav1.Time) (n int32) {
	for _, p := range pods {
		if _, evicted := disrupted[p.Name]; !evicted && p.DeletionTimestamp == nil && pod.Ready(p) {
			n++
		}
	}
	return n
}

// withStatus returns a copy of a budget with the status that it should have, or nil if it has it.
func withStatus(b *policyv1.PodDisruptionBudget, e expectation, healthy int32, disrupted map[string]metav1.Time) *policyv1.PodDisruptionBudget {
	allowed := max(0, healthy-e.desired)
	if e.pods <= 0 {
		// A budget that has matched no pod yet must not allow the eviction of the first one before
		// its status is up to date.
		allowed = 0
	}
	status := policyv1.PodDisruptionBudgetStatus{
		ObservedGeneration: b.Generation, DisruptedPods: disrupted, DisruptionsAllowed: allowed,
		CurrentHealthy: healthy, DesiredHealthy: e.desired, ExpectedPods: e.pods, Conditions: b.Status.Conditions,
	}
	if equality.Semantic.DeepEqual(b.Status, status) && poddisruptionbudget.ConditionsAreUpToDate(b) {
		return nil
	}
	next := b.DeepCopy()
	status.DeepCopyInto(&next.Status)
	poddisruptionbudget.UpdateDisruptionAllowedCondition(next)
	return next
}
