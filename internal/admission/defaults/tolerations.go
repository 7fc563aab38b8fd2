package defaults

import (
	"context"

	"github.com/kapok-dev/kapok/internal/admission"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
)

// TolerationSeconds is Kubernetes' plugin DefaultTolerationSeconds: pods tolerate a node that is
// not ready or unreachable for the given seconds, unless they have tolerations for these taints.
type TolerationSeconds struct{ NotReady, Unreachable int64 }

// Handles implements admission.Plugin.
func (TolerationSeconds) Handles(r *resource.Request, op resource.Operation) bool {
	return (op == resource.OperationCreate || op == resource.OperationUpdate) && is(r, "", "pods")
}

// Mutate implements admission.Mutator.
func (p TolerationSeconds) Mutate(_ context.Context, a *resource.Admitted) error {
	spec := admission.Child(a.Object, "spec")
	said, _ := spec["tolerations"].([]any)
	all := said
	for _, t := range []struct {
		taint   string
		seconds int64
	}{{corev1.TaintNodeNotReady, p.NotReady}, {corev1.TaintNodeUnreachable, p.Unreachable}} {
		if !tolerates(said, t.taint) {
			all = append(all, resource.Tree{
				"key": t.taint, "operator": string(corev1.TolerationOpExists), "effect": string(corev1.TaintEffectNoExecute),
				"tolerationSeconds": t.seconds,
			})
		}
	}
	if len(all) > 0 {
		spec["tolerations"] = all
	}
	return nil
}

// tolerates reports whether a pod has a toleration for a taint with the effect NoExecute.
func tolerates(tolerations []any, taint string) bool {
	for _, item := range tolerations {
		t, _ := item.(map[string]any)
		key, _ := t["key"].(string)
		effect, _ := t["effect"].(string)
		if (key == "" || key == taint) && (effect == "" || effect == string(corev1.TaintEffectNoExecute)) {
			return true
		}
	}
	return false
}
