package pods

import (
	"context"
	"fmt"

	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
)

// LimitPodHardAntiAffinityTopology is Kubernetes' plugin of that name: it rejects pods with a
// required anti-affinity for another topology than nodes, as one of them could keep the pods of
// others off a whole zone.
type LimitPodHardAntiAffinityTopology struct{}

// Handles implements admission.Plugin.
func (LimitPodHardAntiAffinityTopology) Handles(r *resource.Request, op resource.Operation) bool {
	return writes(r, op)
}

// Validate implements admission.Validator.
func (LimitPodHardAntiAffinityTopology) Validate(_ context.Context, a *resource.Admitted) error {
	for _, term := range objects(a.Object, "spec", "affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution") {
		if key := text(term, "topologyKey"); key != corev1.LabelHostname {
			return refuse(a.Object, fmt.Errorf("affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey %v but only key %v is allowed", key, corev1.LabelHostname))
		}
	}
	return nil
}
