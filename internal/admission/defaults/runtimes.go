package defaults

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/kapok-dev/kapok/client/typed"
	"github.com/kapok-dev/kapok/internal/admission"
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
	spec := child(a.Object, "spec")
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
		selector := child(spec, "nodeSelector")
		if said, ok := selector[key]; ok && said != value {
			return admission.Forbidden(a, fmt.Errorf("conflict: runtimeClass.scheduling.nodeSelector[%s] = %s; pod.spec.nodeSelector[%s] = %s", key, value, key, said))
		}
		selector[key] = value
	}
	return tolerate(spec, class.Scheduling.Tolerations)
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

// tolerate adds tolerations to those of a pod, and removes those that others cover.
func tolerate(spec resource.Tree, more []corev1.Toleration) error {
	decoded, err := admission.Decode[corev1.PodSpec](resource.Tree{"tolerations": spec["tolerations"]})
	if err != nil {
		return err
	}
	var merged []any
	for _, t := range merge(append(decoded.Tolerations, more...)) {
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
			if covers(other, t) {
				continue next
			}
		}
		for _, later := range all[i+1:] {
			if !reflect.DeepEqual(t, later) && covers(later, t) {
				continue next
			}
		}
		merged = append(merged, t)
	}
	return merged
}

// covers reports whether every taint that t tolerates is tolerated by wide.
func covers(wide, t corev1.Toleration) bool {
	all := wide.Key == "" && wide.Operator == corev1.TolerationOpExists
	switch {
	case reflect.DeepEqual(wide, t):
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
