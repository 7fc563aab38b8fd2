package pods

import (
	"github.com/kapok-dev/kapok/internal/kinds/rule"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateBinding requires a target that is a node or has no kind.
func validateBinding(binding *corev1.Binding) field.ErrorList {
	var all field.ErrorList
	target := field.NewPath("target")
	kind, name := binding.Target.Kind, binding.Target.Name
	node := kind == "" || kind == "Node"
	if !node {
		all = append(all, field.NotSupported(target.Child("kind"), kind, []string{"Node", "<empty>"}))
	}
	switch {
	case name == "":
		all = append(all, field.Required(target.Child("name"), ""))
	case node:
		all = append(all, rule.Invalid(target.Child("name"), name, apivalidation.NameIsDNSSubdomain(name, false))...)
	}
	return all
}
