package pods

import (
	"errors"
	"fmt"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Budgets is the resource of PodDisruptionBudgets, which limit how many pods of a workload are down
// at a time.
var Budgets = schema.GroupResource{Group: policyv1.GroupName, Resource: "poddisruptionbudgets"}

// disrupt counts one more disrupted pod.
func disrupt(budget *policyv1.PodDisruptionBudget, pod string, now metav1.Time) {
	status := &budget.Status
	status.DisruptionsAllowed--
	if status.DisruptionsAllowed == 0 {
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type:               policyv1.DisruptionAllowedCondition,
			Status:             metav1.ConditionFalse,
			Reason:             policyv1.InsufficientPodsReason,
			ObservedGeneration: status.ObservedGeneration,
		})
	}
	if status.DisruptedPods == nil {
		status.DisruptedPods = map[string]metav1.Time{}
	}
	status.DisruptedPods[pod] = now
}

// maxDisrupted is the largest number of evictions that wait for the disruption controller.
const maxDisrupted = 2000

// mayDisrupt returns the error of an eviction that the budget does not allow, with the reason.
func mayDisrupt(budget *policyv1.PodDisruptionBudget) error {
	status := &budget.Status
	switch {
	case status.ObservedGeneration < budget.Generation:
		return tooManyEvictions(budget.Name)
	case status.DisruptionsAllowed < 0:
		return forbiddenEviction(budget.Name, "pdb disruptions allowed is negative", "pdb disruptions allowed is negative")
	case len(status.DisruptedPods) > maxDisrupted:
		return forbiddenEviction(budget.Name, "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
			"too many pending evictions not confirmed by PDB controller")
	case status.DisruptionsAllowed == 0:
		return refusedEviction(0, whyNot(budget))
	}
	return nil
}

func whyNot(budget *policyv1.PodDisruptionBudget) string {
	c := meta.FindStatusCondition(budget.Status.Conditions, policyv1.DisruptionAllowedCondition)
	told := c != nil && c.Status == metav1.ConditionFalse && c.Message != ""
	why := fmt.Sprintf("The disruption budget %s does not allow evicting pods currently", budget.Name)
	switch {
	case told && c.Reason == policyv1.SyncFailedReason: // then the figures mean nothing
		return why + " because it failed sync: " + c.Message
	case budget.Status.CurrentHealthy <= budget.Status.DesiredHealthy:
		return fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently", budget.Name, budget.Status.DesiredHealthy, budget.Status.CurrentHealthy)
	case told:
		return fmt.Sprintf("%s (%s): %s", why, c.Reason, c.Message)
	}
	return why
}

func forbiddenEviction(name, why, cause string) error {
	err := apierrors.NewForbidden(schema.GroupResource{Group: policyv1.GroupName, Resource: "poddisruptionbudget"}, name, errors.New(why))
	return withCause(err, fmt.Sprintf("The disruption budget %s does not allow evicting pods currently: %s", name, cause))
}

func tooManyEvictions(name string) error {
	return refusedEviction(10, fmt.Sprintf("The disruption budget %s is still being processed by the server.", name))
}

func refusedEviction(retryAfter int, cause string) error {
	return withCause(apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", retryAfter), cause)
}

func withCause(err *apierrors.StatusError, cause string) error {
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: cause})
	return err
}

// freesUnready reports whether a budget allows the eviction of unready pods: always with the policy
// AlwaysAllow, and otherwise while enough pods are healthy.
func freesUnready(budget *policyv1.PodDisruptionBudget) bool {
	if policy := budget.Spec.UnhealthyPodEvictionPolicy; policy != nil && *policy == policyv1.AlwaysAllow {
		return true
	}
	status := budget.Status
	return status.CurrentHealthy >= status.DesiredHealthy && status.DesiredHealthy > 0
}
