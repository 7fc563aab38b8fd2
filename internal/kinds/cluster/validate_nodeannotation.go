package cluster

import (
	"encoding/json"
	"strings"

	"github.com/kapok-dev/kapok/internal/kinds/rule"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// taintsAnnotation is where taints were before they were a field.
const taintsAnnotation = "scheduler.alpha.kubernetes.io/taints"

// validateNodeAnnotations returns the errors of the annotations that once had a meaning for the
// scheduler. Kubernetes still validates them.
func validateNodeAnnotations(annotations map[string]string) field.ErrorList {
	var all field.ErrorList
	path := field.NewPath("metadata", "annotations")
	if text := annotations[taintsAnnotation]; text != "" {
		var taints []corev1.Taint
		if err := json.Unmarshal([]byte(text), &taints); err != nil {
			problem := strings.Replace(err.Error(), "[]v1.Taint", "[]core.Taint", 1) // the name in Kubernetes
			all = append(all, field.Invalid(path, taintsAnnotation, problem))
		} else {
			all = append(all, validateTaints(taints, path.Child(taintsAnnotation))...)
		}
	}
	if text := annotations[corev1.PreferAvoidPodsAnnotationKey]; text != "" {
		all = append(all, validateAvoidedPods(text, path)...)
	}
	return all
}

// validateAvoidedPods returns the errors of the pods that a node would rather not run.
func validateAvoidedPods(text string, path *field.Path) field.ErrorList {
	var avoids corev1.AvoidPods
	if err := json.Unmarshal([]byte(text), &avoids); err != nil {
		return field.ErrorList{field.Invalid(path.Child("AvoidPods"), corev1.PreferAvoidPodsAnnotationKey, err.Error())}
	}
	var all field.ErrorList
	for i, entry := range avoids.PreferAvoidPods {
		at := path.Child(corev1.PreferAvoidPodsAnnotationKey).Index(i).Child("PodSignature")
		switch owner := entry.PodSignature.PodController; {
		case owner == nil:
			all = append(all, field.Required(at, ""))
		case !rule.IsTrue(owner.Controller):
			all = append(all, field.Invalid(at.Child("PodController", "Controller"), false, "must point to a controller"))
		}
	}
	return all
}
