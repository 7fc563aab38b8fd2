package pods

import (
	"context"
	"maps"
	"slices"

	"github.com/kapok-dev/kapok/internal/admission"
	podkind "github.com/kapok-dev/kapok/internal/kinds/pods"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
)

// ExtendedResourceToleration is Kubernetes' plugin of that name: a pod that requests an extended
// resource tolerates the taint with the name of the resource, by which nodes with such devices keep
// other pods off.
type ExtendedResourceToleration struct{}

// Handles implements admission.Plugin.
func (ExtendedResourceToleration) Handles(r *resource.Request, op resource.Operation) bool {
	return writes(r, op)
}

// Mutate implements admission.Mutator.
func (ExtendedResourceToleration) Mutate(_ context.Context, a *resource.Admitted) error {
	requested := map[string]bool{}
	for _, list := range []string{"containers", "initContainers"} {
		for _, c := range objects(a.Object, "spec", list) {
			resources, _ := c["resources"].(map[string]any)
			requests, _ := resources["requests"].(map[string]any)
			for name := range requests {
				if podkind.IsExtended(corev1.ResourceName(name)) {
					requested[name] = true
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(requested)) {
		tolerate(admission.Child(a.Object, "spec"), name)
	}
	return nil
}

// tolerate adds a toleration of a taint with a key and the effect NoSchedule. It replaces one that
// differs from it only in its seconds.
func tolerate(spec resource.Tree, key string) {
	fresh := resource.Tree{"key": key, "operator": string(corev1.TolerationOpExists), "effect": string(corev1.TaintEffectNoSchedule)}
	list, _ := spec["tolerations"].([]any)
	found := false
	for i, item := range list {
		t, _ := item.(map[string]any)
		if t["key"] == key && t["operator"] == fresh["operator"] && t["effect"] == fresh["effect"] && text(t, "value") == "" {
			list[i], found = fresh, true
		}
	}
	if !found {
		spec["tolerations"] = append(list, fresh)
	}
}
