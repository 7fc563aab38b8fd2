package builtin

import (
	"reflect"
	"slices"

	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ephemeralContainers is where containers are added to a pod that is there, to look
// into it.
func ephemeralContainers() resource.Subresource {
	return resource.Subresource{
		Name: "ephemeralcontainers",
		Prepare: func(obj, old resource.Tree) {
			containers, found := get(obj, "spec", "ephemeralContainers").([]any)
			keepPod(obj, old)
			if drop(obj, "spec", "ephemeralContainers"); found {
				put(obj, containers, "spec", "ephemeralContainers")
			}
			dropGatedFields(obj["spec"].(resource.Tree))
			countGeneration(obj, old)
		},
	}
}

// resize is where the resources of containers that run are changed.
func resize() resource.Subresource {
	return resource.Subresource{
		Name: "resize",
		Prepare: func(obj, old resource.Tree) {
			before := runtime.DeepCopyJSON(old["spec"].(resource.Tree))
			after, _ := obj["spec"].(resource.Tree)
			for _, list := range []string{"containers", "initContainers"} {
				if !sameContainers(after[list], before[list]) {
					return // which is not valid
				}
				containers, _ := after[list].([]any)
				for i, c := range containers {
					for _, name := range []string{"resources", "resizePolicy"} {
						keep(before[list].([]any)[i].(resource.Tree), c.(resource.Tree), name)
					}
				}
			}
			if after["resources"] != nil {
				keep(before, after, "resources")
			}
			keepPod(obj, old)
			obj["spec"] = before
			if before["resources"] != nil {
				edited(func(pod *corev1.Pod) { completePodResources(&pod.Spec) })(obj)
			}
			countGeneration(obj, old)
		},
	}
}

// sameContainers says whether two lists have containers of the same names.
func sameContainers(a, b any) bool {
	now, _ := a.([]any)
	before, _ := b.([]any)
	return slices.EqualFunc(now, before, func(x, y any) bool {
		return text(x.(resource.Tree), "name") == text(y.(resource.Tree), "name")
	})
}

// keepPod puts back what of a pod is not written through a part of its spec. Of the
// metadata only the managed fields change.
func keepPod(obj, old resource.Tree) {
	keep(obj, old, "spec")
	keep(obj, old, "status")
	for _, name := range []string{"labels", "annotations", "ownerReferences", "finalizers", "deletionTimestamp", "selfLink", "generateName"} {
		keep(obj, old, "metadata", name)
	}
}

// countGeneration makes the generation one more where the spec has changed.
func countGeneration(obj, old resource.Tree) {
	generation, _ := get(old, "metadata", "generation").(int64)
	if !reflect.DeepEqual(obj["spec"], old["spec"]) {
		generation++
	}
	put(obj, generation, "metadata", "generation")
}
