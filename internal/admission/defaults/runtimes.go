package defaults

import (
	"context"
	"errors"
	"fmt"

	"github.com/kapok-dev/kapok/internal/admission"
	"github.com/kapok-dev/kapok/internal/admission/tolerations"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// RuntimeClass is Kubernetes' plugin of that name: it sets a pod's overhead, node selector and
// tolerations from its class.
type RuntimeClass struct{ State *state.State }

var errOverhead = errors.New("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")

// Handles implements admission.Plugin.
func (RuntimeClass) Handles(r *resource.Request, op resource.Operation) bool {
	return op == resource.OperationCreate && is(r, "", "pods")
}

// Mutate implements admission.Mutator.
func (p RuntimeClass) Mutate(_ context.Context, a *resource.Admitted) error {
	class, err := p.class(a)
	if class == nil || err != nil {
		return err
	}
	spec := admission.Child(a.Object, "spec")
	if class.Overhead != nil {
		said, err := overhead(a.Object)
		if err != nil {
			return err
		}
		if len(said) > 0 && !equality.Semantic.DeepEqual(said, class.Overhead.PodFixed) {
			return admission.Forbidden(a, errOverhead)
		}
		fixed := resource.Tree{}
		for name, value := range class.Overhead.PodFixed {
			fixed[string(name)] = value.String()
		}
		if spec["overhead"] = fixed; len(fixed) == 0 {
			delete(spec, "overhead")
		}
	}
	if class.Scheduling == nil {
		return nil
	}
	for key, value := range class.Scheduling.NodeSelector {
		selector := admission.Child(spec, "nodeSelector")
		if said, ok := selector[key]; ok && said != value {
			return admission.Forbidden(a, fmt.Errorf("conflict: runtimeClass.scheduling.nodeSelector[%s] = %s; pod.spec.nodeSelector[%s] = %s", key, value, key, said))
		}
		selector[key] = value
	}
	return tolerations.Add(spec, class.Scheduling.Tolerations)
}

// Validate implements admission.Validator.
func (p RuntimeClass) Validate(_ context.Context, a *resource.Admitted) error {
	class, err := p.class(a)
	if err != nil {
		return err
	}
	said, err := overhead(a.Object)
	if err != nil {
		return err
	}
	switch {
	case class != nil && class.Overhead != nil:
		if !equality.Semantic.DeepEqual(said, class.Overhead.PodFixed) {
			return admission.Forbidden(a, errOverhead)
		}
	case said != nil:
		return admission.Forbidden(a, errors.New("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"))
	}
	return nil
}

// class returns the class that a pod names, nil if it names none.
func (p RuntimeClass) class(a *resource.Admitted) (*nodev1.RuntimeClass, error) {
	spec, _ := a.Object["spec"].(map[string]any)
	name, ok := spec["runtimeClassName"].(string)
	if !ok {
		return nil, nil
	}
	o, _ := p.State.Get(object.Key{Resource: schema.GroupResource{Group: nodev1.GroupName, Resource: "runtimeclasses"}, Name: name})
	if o == nil {
		return nil, admission.Forbidden(a, fmt.Errorf("pod rejected: RuntimeClass %q not found", name))
	}
	tree, err := o.Tree()
	if err != nil {
		return nil, err
	}
	return admission.Decode[nodev1.RuntimeClass](tree)
}

// overhead returns a pod's overhead, nil if it has none.
func overhead(pod resource.Tree) (corev1.ResourceList, error) {
	spec, _ := pod["spec"].(map[string]any)
	decoded, err := admission.Decode[corev1.PodSpec](resource.Tree{"overhead": spec["overhead"]})
	if err != nil {
		return nil, err
	}
	return decoded.Overhead, nil
}
