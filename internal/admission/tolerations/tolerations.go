// Package tolerations merges the tolerations of pods, as Kubernetes'
// k8s.io/kubernetes/pkg/util/tolerations does, for the plugins that add some.
//
// Its functions have no state. The package starts no goroutine and has no locks.
package tolerations

import (
	"github.com/kapok-dev/kapok/client/typed"
	"github.com/kapok-dev/kapok/internal/admission"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// Of returns the tolerations in the spec of a pod.
func Of(spec resource.Tree) ([]corev1.Toleration, error) {
	decoded, err := admission.Decode[corev1.PodSpec](resource.Tree{"tolerations": spec["tolerations"]})
	if err != nil {
		return nil, err
	}
	return decoded.Tolerations, nil
}

// Add adds tolerations to the spec of a pod, and removes those that others cover.
func Add(spec resource.Tree, more []corev1.Toleration) error {
	given, err := Of(spec)
	if err != nil {
		return err
	}
	var merged []any
	for _, t := range merge(append(given, more...)) {
		tree, err := typed.ToTree(&t)
		if err != nil {
			return err
		}
		merged = append(merged, tree)
	}
	if spec["tolerations"] = merged; merged == nil {
		delete(spec, "tolerations")
	}
	return nil
}

func merge(all []corev1.Toleration) (merged []corev1.Toleration) {
next:
	for i, t := range all {
		for _, other := range merged {
			if Covers(other, t) {
				continue next
			}
		}
		for _, later := range all[i+1:] {
			if !equality.Semantic.DeepEqual(t, later) && Covers(later, t) {
				continue next
			}
		}
		merged = append(merged, t)
	}
	return merged
}

// Covers reports whether every taint that t tolerates is tolerated by wide.
func Covers(wide, t corev1.Toleration) bool {
	all := wide.Key == "" && wide.Operator == corev1.TolerationOpExists
	switch {
	case equality.Semantic.DeepEqual(wide, t):
		return true
	case t.Key != wide.Key && !all, t.Effect != wide.Effect && wide.Effect != "":
		return false
	case wide.Effect == corev1.TaintEffectNoExecute && wide.TolerationSeconds != nil &&
		(t.TolerationSeconds == nil || *t.TolerationSeconds > *wide.TolerationSeconds):
		return false
	}
	switch wide.Operator {
	case corev1.TolerationOpEqual, "":
		return t.Operator == corev1.TolerationOpEqual && t.Value == wide.Value
	case corev1.TolerationOpExists:
		return true
	}
	return false
}
