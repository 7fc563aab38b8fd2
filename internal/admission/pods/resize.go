package pods

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kapok-dev/kapok/internal/admission"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	resources "k8s.io/component-helpers/resource"
)

// PodResizeValidator is Kubernetes' plugin of that name: it rejects a resize of a pod on a node
// that does not run Linux, or whose allocatable resources the pod would exceed.
type PodResizeValidator struct{ State *state.State }

// Causes of a rejected resize.
const (
	nodeCapacity        metav1.CauseType = "NodeCapacity"
	unsupportedPlatform metav1.CauseType = "UnsupportedPlatform"
)

// Handles implements admission.Plugin.
func (PodResizeValidator) Handles(r *resource.Request, op resource.Operation) bool {
	return op == resource.OperationUpdate && is(r, "resize")
}

// Validate implements admission.Validator.
func (p PodResizeValidator) Validate(_ context.Context, a *resource.Admitted) error {
	if !changesBoundPod(a) {
		return nil
	}
	node, err := nodeOf(p.State, a)
	if err != nil {
		return err
	}
	if system, ok := node.Labels[corev1.LabelOSStable]; ok && system != "linux" {
		return resizeRefused(a, unsupportedPlatform, fmt.Errorf("pod resize is only supported on linux nodes, node %q is %q", node.Name, system))
	}
	pod, err := admission.Decode[corev1.Pod](a.Object)
	if err != nil {
		return err
	}
	if excess := exceeds(resources.PodRequests(pod, resources.PodResourcesOptions{}), node.Status.Allocatable); excess != nil {
		return resizeRefused(a, nodeCapacity, fmt.Errorf("node didn't have enough allocatable resources: %s", strings.Join(excess, "; ")))
	}
	return nil
}

// exceeds returns a text for each of CPU and memory of which more is requested than can be
// allocated. A node that does not report its resources has none.
func exceeds(requests, allocatable corev1.ResourceList) (excess []string) {
	if cpu := requests.Cpu(); cpu.Cmp(*allocatable.Cpu()) > 0 {
		excess = append(excess, fmt.Sprintf("cpu, requested: %d, allocatable: %d", cpu.MilliValue(), allocatable.Cpu().MilliValue()))
	}
	if memory := requests.Memory(); memory.Cmp(*allocatable.Memory()) > 0 {
		excess = append(excess, fmt.Sprintf("memory, requested: %d, allocatable: %d", memory.Value(), allocatable.Memory().Value()))
	}
	return excess
}

func resizeRefused(a *resource.Admitted, cause metav1.CauseType, err error) error {
	refusal := admission.Forbidden(a, err)
	var status *apierrors.StatusError
	if errors.As(refusal, &status) {
		status.ErrStatus.Details.Causes = append(status.ErrStatus.Details.Causes, metav1.StatusCause{Type: cause})
	}
	return refusal
}

// changesBoundPod reports whether an update changes the spec of a pod that is bound to a node: the
// generation counts the changes of the spec.
func changesBoundPod(a *resource.Admitted) bool {
	generation := func(pod resource.Tree) any {
		n, _, _ := unstructured.NestedFieldNoCopy(pod, "metadata", "generation")
		return n
	}
	return text(a.Object, "spec", "nodeName") != "" && generation(a.Object) != generation(a.Old)
}

// nodeOf returns the node to which the pod of a request is bound, and 403 if there is none.
func nodeOf(st *state.State, a *resource.Admitted) (*corev1.Node, error) {
	name := text(a.Object, "spec", "nodeName")
	o, _ := st.Get(object.Key{Resource: nodes, Name: name})
	if o == nil {
		return nil, admission.Forbidden(a, fmt.Errorf("node %q not found", name))
	}
	tree, err := o.Tree()
	if err != nil {
		return nil, admission.Forbidden(a, fmt.Errorf("failed to get node %q: %w", name, err))
	}
	node, err := admission.Decode[corev1.Node](tree)
	if err != nil {
		return nil, admission.Forbidden(a, fmt.Errorf("failed to get node %q: %w", name, err))
	}
	return node, nil
}
