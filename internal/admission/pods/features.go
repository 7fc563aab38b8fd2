package pods

import (
	"context"
	"fmt"
	"strings"

	"github.com/kapok-dev/kapok/internal/admission"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	features "k8s.io/component-helpers/nodedeclaredfeatures"
)

// NodeDeclaredFeatureValidator is Kubernetes' plugin of that name: it rejects updates of a pod that
// need a feature which its node does not declare in status.declaredFeatures. The features are those
// of k8s.io/component-helpers; all that updates need are about resizes.
type NodeDeclaredFeatureValidator struct{ State *state.State }

// Handles implements admission.Plugin. ResourceSlices, which the plugin checks in Kubernetes, need
// a feature that is off by default (DRANodeAllocatableResources).
func (NodeDeclaredFeatureValidator) Handles(r *resource.Request, op resource.Operation) bool {
	return op == resource.OperationUpdate && (is(r, "") || is(r, "resize"))
}

// Validate implements admission.Validator.
func (p NodeDeclaredFeatureValidator) Validate(_ context.Context, a *resource.Admitted) error {
	if !changesBoundPod(a) {
		return nil
	}
	pod, err := admission.Decode[corev1.Pod](a.Object)
	if err != nil {
		return err
	}
	old, err := admission.Decode[corev1.Pod](a.Old)
	if err != nil {
		return err
	}
	all := features.DefaultFramework
	needs, err := all.InferForPodUpdate(&features.PodInfo{Spec: &old.Spec, Status: &old.Status},
		&features.PodInfo{Spec: &pod.Spec, Status: &pod.Status}, version.MajorMinor(1, 37))
	if err != nil {
		return admission.Forbidden(a, fmt.Errorf("failed to infer pod capability requirements: %w", err))
	}
	if needs.IsEmpty() {
		return nil
	}
	node, err := nodeOf(p.State, a)
	if err != nil {
		return err
	}
	result, err := all.MatchNode(needs, node)
	if err != nil {
		return admission.Forbidden(a, fmt.Errorf("failed to match pod requirements against node %q: %w", node.Name, err))
	}
	if !result.IsMatch {
		return admission.Forbidden(a, fmt.Errorf("pod update requires features %s which are not available on node %q", strings.Join(result.UnsatisfiedRequirements, ", "), node.Name))
	}
	return nil
}
