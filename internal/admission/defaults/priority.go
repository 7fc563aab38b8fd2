package defaults

import (
	"bytes"
	"context"
	"fmt"

	"github.com/kapok-dev/kapok/internal/admission"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Priority is Kubernetes' plugin of that name: it sets a pod's priority and preemption policy from
// its class.
type Priority struct{ State *state.State }

var priorityClasses = schema.GroupResource{Group: schedulingv1.GroupName, Resource: "priorityclasses"}

// Handles implements admission.Plugin.
func (Priority) Handles(r *resource.Request, op resource.Operation) bool {
	return (op == resource.OperationCreate || op == resource.OperationUpdate) && is(r, "", "pods")
}

// Mutate implements admission.Mutator.
func (p Priority) Mutate(_ context.Context, a *resource.Admitted) error {
	spec := admission.Child(a.Object, "spec")
	if a.Operation == resource.OperationUpdate {
		old, _ := a.Old["spec"].(map[string]any)
		for _, key := range []string{"priority", "preemptionPolicy"} {
			if spec[key] == nil && old[key] != nil {
				spec[key] = old[key]
			}
		}
		return nil
	}
	asked, _ := spec["priorityClassName"].(string)
	name, value, policy, err := p.class(asked)
	if err != nil {
		return admission.Forbidden(a, err)
	}
	if said, ok := spec["priority"].(int64); ok && said != value {
		return admission.Forbidden(a, fmt.Errorf("the integer value of priority (%d) must not be provided in pod spec; priority admission controller computed %d from the given PriorityClass name", said, value))
	}
	if name != "" {
		spec["priorityClassName"] = name
	}
	spec["priority"] = value
	if policy == "" {
		return nil
	}
	if said, ok := spec["preemptionPolicy"].(string); ok && said != policy {
		return admission.Forbidden(a, fmt.Errorf("the string value of PreemptionPolicy (%s) must not be provided in pod spec; priority admission controller computed %s from the given PriorityClass name", said, policy))
	}
	spec["preemptionPolicy"] = policy
	return nil
}

// class returns the name, the value and the policy of a class; without a name, those of the default
// class, if there is one.
func (p Priority) class(asked string) (name string, value int64, policy string, err error) {
	var o *object.Object
	if asked == "" {
		o, err = p.byDefault()
	} else if o, _ = p.State.Get(object.Key{Resource: priorityClasses, Name: asked}); o == nil {
		err = fmt.Errorf("no PriorityClass with name %v was found", asked)
	}
	switch {
	case err != nil:
		return "", 0, "", err
	case o == nil:
		return "", 0, string(corev1.PreemptLowerPriority), nil
	}
	tree, err := o.Tree()
	if err != nil {
		return "", 0, "", err
	}
	value, _ = tree["value"].(int64)
	policy, _ = tree["preemptionPolicy"].(string)
	return o.Key.Name, value, policy, nil
}

// byDefault returns the default class, nil if there is none. There is at most one.
func (p Priority) byDefault() (*object.Object, error) {
	for o := range p.State.Snapshot(priorityClasses).All("") {
		if !bytes.Contains(o.Raw, []byte(`"globalDefault":true`)) {
			continue
		}
		tree, err := o.Tree()
		if err != nil {
			return nil, err
		}
		if isDefault, _ := tree["globalDefault"].(bool); isDefault {
			return o, nil
		}
	}
	return nil, nil
}
