package pods

import (
	"reflect"
	"slices"

	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ephemeralContainers is the subresource that adds containers to an existing pod for debugging.
func ephemeralContainers() resource.Subresource {
	return resource.Subresource{
		Name: "ephemeralcontainers",
		Prepare: func(obj, old resource.Tree) {
			containers, found := kind.Get(obj, "spec", "ephemeralContainers").([]any)
			keepPod(obj, old)
			if kind.Drop(obj, "spec", "ephemeralContainers"); found {
				kind.Put(obj, containers, "spec", "ephemeralContainers")
			}
			kind.DropGatedFields(obj["spec"].(resource.Tree))
			countGeneration(obj, old)
		},
	}
}

// resize is the subresource that changes the resources of running containers.
func resize() resource.Subresource {
	return resource.Subresource{
		Name: "resize",
		Prepare: func(obj, old resource.Tree) {
			before := runtime.DeepCopyJSON(old["spec"].(resource.Tree))
			after, _ := obj["spec"].(resource.Tree)
			for _, list := range []string{"containers", "initContainers"} {
				if !sameContainers(after[list], before[list]) {
					return // not valid: validation reports it
				}
				containers, _ := after[list].([]any)
				for i, c := range containers {
					for _, name := range []string{"resources", "resizePolicy"} {
						kind.Keep(before[list].([]any)[i].(resource.Tree), c.(resource.Tree), name)
					}
				}
			}
			if after["resources"] != nil {
				kind.Keep(before, after, "resources")
			}
			keepPod(obj, old)
			obj["spec"] = before
			if before["resources"] != nil {
				kind.Edited(func(pod *corev1.Pod) { completePodResources(&pod.Spec) })(obj)
			}
			countGeneration(obj, old)
		},
	}
}

// sameContainers reports whether two lists have containers of the same names.
func sameContainers(a, b any) bool {
	now, _ := a.([]any)
	before, _ := b.([]any)
	return slices.EqualFunc(now, before, func(x, y any) bool {
		return kind.Text(x.(resource.Tree), "name") == kind.Text(y.(resource.Tree), "name")
	})
}

// keepPod restores everything of a pod that a write to a part of its spec does not change. Of the
// metadata, only the managed fields change.
func keepPod(obj, old resource.Tree) {
	kind.Keep(obj, old, "spec")
	kind.Keep(obj, old, "status")
	for _, name := range []string{"labels", "annotations", "ownerReferences", "finalizers", "deletionTimestamp", "selfLink", "generateName"} {
		kind.Keep(obj, old, "metadata", name)
	}
}

// countGeneration increments the generation if the spec has changed.
func countGeneration(obj, old resource.Tree) {
	generation, _ := kind.Get(old, "metadata", "generation").(int64)
	if !reflect.DeepEqual(obj["spec"], old["spec"]) {
		generation++
	}
	kind.Put(obj, generation, "metadata", "generation")
}
