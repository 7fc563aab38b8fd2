package pods

import (
	"context"

	"github.com/kapok-dev/kapok/internal/admission"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	corev1 "k8s.io/api/core/v1"
)

// PodTopologyLabels is Kubernetes' plugin of that name: it copies the zone and region labels of a
// node to the pods that are created with the node, and to bindings, whose labels become those of
// their pods. Bindings of the legacy resource (POST .../bindings) are not labelled.
type PodTopologyLabels struct{ State *state.State }

// Handles implements admission.Plugin.
func (PodTopologyLabels) Handles(r *resource.Request, op resource.Operation) bool {
	return op == resource.OperationCreate && (is(r, "") || is(r, "binding"))
}

// Mutate implements admission.Mutator.
func (p PodTopologyLabels) Mutate(_ context.Context, a *resource.Admitted) error {
	name := text(a.Object, "spec", "nodeName")
	if a.Request.Subresource == "binding" {
		if text(a.Object, "target", "kind") != "Node" {
			return nil
		}
		name = text(a.Object, "target", "name")
	}
	if name == "" {
		return nil
	}
	node, _ := p.State.Get(object.Key{Resource: nodes, Name: name})
	if node == nil {
		return nil
	}
	for _, label := range []string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion} {
		if value, ok := node.Meta.Labels.Lookup(label); ok {
			admission.Child(admission.Child(a.Object, "metadata"), "labels")[label] = value
		}
	}
	return nil
}
