package pods

import (
	"errors"
	"fmt"

	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Scheduling has group scheduling.k8s.io.
func Scheduling() []kind.Row {
	return []kind.Row{
		kind.Kind[*schedulingv1.PriorityClass]{
			Version:       schedulingv1.SchemeGroupVersion,
			Plural:        "priorityclasses",
			ShortNames:    []string{"pc"},
			ClusterScoped: true,
			Filled:        true,
			Validate:      validatePriorityClass,
			Generation:    []string{}, // the generation is always 1
			Table:         priorityClassesTable(),
			Retired: []kind.Another[*schedulingv1.PriorityClass]{
				kind.In[*schedulingv1.PriorityClass, *schedulingv1beta1.PriorityClass](schedulingv1beta1.SchemeGroupVersion),
			},
			Strategy: resource.Strategy{Claim: oneDefaultPriority},
			Deletion: resource.Deletion{Allow: refuseSystemPriorityClasses},
		}.Row(),
	}
}

// PriorityClassesAtStart returns the priority classes of the system, which every cluster has.
func PriorityClassesAtStart() []resource.Tree {
	var trees []resource.Tree
	for _, class := range systemPriorityClasses() {
		trees = append(trees, resource.Tree{
			"apiVersion":  schedulingv1.SchemeGroupVersion.String(),
			"kind":        "PriorityClass",
			"metadata":    resource.Tree{"name": class.Name},
			"value":       int64(class.Value),
			"description": class.Description,
		})
	}
	return trees
}

// oneDefaultPriority rejects a second default priority class. In Kubernetes, the plugin Priority
// does this.
func oneDefaultPriority(c *resource.Claims, obj, _ resource.Tree) error {
	if isDefault, _ := kind.Get(obj, "globalDefault").(bool); !isDefault {
		return nil
	}
	name, classes := kind.Text(obj, "metadata", "name"), schema.GroupResource{Group: schedulingv1.GroupName, Resource: "priorityclasses"}
	for o := range c.State().Snapshot(classes).All("") {
		tree, err := o.Tree()
		if err != nil {
			return fmt.Errorf("read priority class %s: %w", o.Key.Name, err)
		}
		if isDefault, _ := tree["globalDefault"].(bool); isDefault && o.Key.Name != name {
			return apierrors.NewForbidden(classes, name, fmt.Errorf("PriorityClass %v is already marked as default. Only one default can exist", o.Key.Name))
		}
	}
	return nil
}

// refuseSystemPriorityClasses rejects the deletion of the system's priority classes.
func refuseSystemPriorityClasses(o *object.Object) error {
	for _, class := range systemPriorityClasses() {
		if o.Key.Name == class.Name {
			return apierrors.NewForbidden(o.Key.Resource, o.Key.Name, errors.New("this is a system priority class and cannot be deleted"))
		}
	}
	return nil
}
