package pods

import (
	"fmt"
	"strings"

	"github.com/kapok-dev/kapok/internal/kinds/rule"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	highestUserPriority = 1_000_000_000
	systemPriority      = 2 * highestUserPriority
	systemPrefix        = "system-"
)

// systemPriorityClasses returns the only classes whose names may start with "system-". They always
// exist.
func systemPriorityClasses() []schedulingv1.PriorityClass {
	return []schedulingv1.PriorityClass{
		{
			ObjectMeta:  metav1.ObjectMeta{Name: systemPrefix + "node-critical"},
			Value:       systemPriority + 1000,
			Description: "Used for system critical pods that must not be moved from their current node.",
		},
		{
			ObjectMeta:  metav1.ObjectMeta{Name: systemPrefix + "cluster-critical"},
			Value:       systemPriority,
			Description: "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
		},
	}
}

// validatePriorityClass validates a priority class.
func validatePriorityClass(class, old *schedulingv1.PriorityClass) field.ErrorList {
	var all field.ErrorList
	if old != nil {
		if class.Value != old.Value {
			all = append(all, field.Forbidden(field.NewPath("value"), "may not be changed in an update."))
		}
		return append(all, apivalidation.ValidateImmutableField(class.PreemptionPolicy, old.PreemptionPolicy, field.NewPath("preemptionPolicy"))...)
	}
	switch {
	case strings.HasPrefix(class.Name, systemPrefix):
		if err := checkSystemClass(class); err != nil {
			all = append(all, field.Forbidden(field.NewPath("metadata", "name"),
				"priority class names with '"+systemPrefix+"' prefix are reserved for system use only. error: "+err.Error()))
		}
	case class.Value > highestUserPriority:
		all = append(all, field.Forbidden(field.NewPath("value"), fmt.Sprintf("maximum allowed value of a user defined priority is %v", highestUserPriority)))
	}
	if policy := class.PreemptionPolicy; policy != nil {
		all = append(all, rule.OneOf(field.NewPath("preemptionPolicy"), *policy, corev1.PreemptLowerPriority, corev1.PreemptNever)...)
	}
	return all
}

func checkSystemClass(class *schedulingv1.PriorityClass) error {
	for _, system := range systemPriorityClasses() {
		switch {
		case system.Name != class.Name:
			continue
		case system.Value != class.Value:
			return fmt.Errorf("value of %v PriorityClass must be %v", system.Name, system.Value)
		case class.GlobalDefault:
			return fmt.Errorf("globalDefault of %v PriorityClass must be %v", system.Name, false)
		}
		return nil
	}
	return fmt.Errorf("%v is not a known system priority class", class.Name)
}

// validateRuntimeClass validates a runtime class.
func validateRuntimeClass(class, old *nodev1.RuntimeClass) field.ErrorList {
	var all field.ErrorList
	if class.Overhead != nil {
		all = append(all, validateResources(&corev1.ResourceRequirements{Limits: class.Overhead.PodFixed}, nil, field.NewPath("overhead"))...)
	}
	if s := class.Scheduling; s != nil {
		path := field.NewPath("scheduling")
		all = append(all, metav1validation.ValidateLabels(s.NodeSelector, path.Child("nodeSelector"))...)
		all = append(all, ValidateTolerations(s.Tolerations, path.Child("tolerations"))...)
		all = append(all, validateNoToleration(s.Tolerations, path.Child("tolerations"))...)
	}
	return append(all, validateRuntimeHandler(class, old)...)
}

// validateNoToleration rejects duplicate tolerations.
func validateNoToleration(tolerations []corev1.Toleration, at *field.Path) field.ErrorList {
	var all field.ErrorList
	seen := map[corev1.Toleration]bool{}
	for i, t := range tolerations {
		same := t
		same.TolerationSeconds = nil
		if seen[same] {
			all = append(all, field.Duplicate(at.Index(i), rule.AsInternal(t)))
		}
		seen[same] = true
	}
	return all
}

// validateRuntimeHandler returns the errors of a handler, which is checked on create only.
func validateRuntimeHandler(class, old *nodev1.RuntimeClass) field.ErrorList {
	at := field.NewPath("handler")
	if old != nil && class.Handler == old.Handler {
		return nil
	}
	all := rule.RequireText(class.Handler, at)
	if class.Handler != "" {
		all = append(all, rule.ValidateLabel(at, class.Handler)...)
	}
	if old != nil {
		all = append(all, rule.Immutable(at)...)
	}
	return all
}
