package builtin

import (
	"errors"
	"fmt"

	"github.com/kapok-dev/kapok/internal/builtin/tables"
	"github.com/kapok-dev/kapok/internal/builtin/validation"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// scheduling has group scheduling.k8s.io.
func scheduling() []row {
	return []row{
		kind[schedulingv1.PriorityClass]{
			version:       schedulingv1.SchemeGroupVersion,
			plural:        "priorityclasses",
			shortNames:    []string{"pc"},
			clusterScoped: true,
			defaults:      fill[schedulingv1.PriorityClass],
			validate:      validation.PriorityClass,
			generation:    []string{}, // it has one, which never grows
			table:         tables.PriorityClasses(),
			retired: []another[schedulingv1.PriorityClass]{
				in[schedulingv1.PriorityClass, schedulingv1beta1.PriorityClass](schedulingv1beta1.SchemeGroupVersion),
			},
			hooks: resource.Hooks{Claim: oneDefaultPriority, AllowDelete: refuseSystemPriorityClasses},
		}.row(),
	}
}

// priorityClassesAtStart are the classes of pods without which there is no cluster.
func priorityClassesAtStart() []resource.Tree {
	var trees []resource.Tree
	for _, class := range validation.SystemPriorityClasses() {
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

// oneDefaultPriority lets one class be that of pods that name none. In Kubernetes this is a part of a plugin, Priority.
func oneDefaultPriority(c *resource.Claims, obj, _ resource.Tree) error {
	if isDefault, _ := get(obj, "globalDefault").(bool); !isDefault {
		return nil
	}
	name, classes := text(obj, "metadata", "name"), schema.GroupResource{Group: schedulingv1.GroupName, Resource: "priorityclasses"}
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

// refuseSystemPriorityClasses keeps the classes that were there at the start.
func refuseSystemPriorityClasses(o *object.Object) error {
	for _, class := range validation.SystemPriorityClasses() {
		if o.Key.Name == class.Name {
			return apierrors.NewForbidden(o.Key.Resource, o.Key.Name, errors.New("this is a system priority class and cannot be deleted"))
		}
	}
	return nil
}
