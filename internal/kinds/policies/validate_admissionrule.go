package policies

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/kinds/rule"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateOperationRule returns the errors of a rule of operations and resources.
func validateOperationRule(r *admissionv1.RuleWithOperations, at *field.Path) (all field.ErrorList) {
	operations := at.Child("operations")
	if len(r.Operations) == 0 {
		all = append(all, field.Required(operations, ""))
	}
	if len(r.Operations) > 1 && slices.Contains(r.Operations, admissionv1.OperationAll) {
		all = append(all, field.Invalid(operations, r.Operations, "if '*' is present, must not specify other operations"))
	}
	for i, o := range r.Operations {
		all = append(all, rule.Supported(operations.Index(i), o, admissionv1.OperationAll, admissionv1.Connect, admissionv1.Create, admissionv1.Delete, admissionv1.Update)...)
	}
	if len(r.APIGroups) == 0 { // "" is valid: it is the core group
		all = append(all, field.Required(at.Child("apiGroups"), ""))
	}
	all = append(all, rule.ValidateStarAlone(r.APIGroups, "API groups", at.Child("apiGroups"))...)
	if len(r.APIVersions) == 0 {
		all = append(all, field.Required(at.Child("apiVersions"), ""))
	}
	all = append(all, rule.ValidateStarAlone(r.APIVersions, "API versions", at.Child("apiVersions"))...)
	for i, v := range r.APIVersions {
		if v == "" {
			all = append(all, field.Required(at.Child("apiVersions").Index(i), ""))
		}
	}
	all = append(all, validateRuleResources(r.Resources, at.Child("resources"))...)
	if r.Scope != nil {
		all = append(all, rule.Supported(at.Child("scope"), *r.Scope, admissionv1.AllScopes, admissionv1.ClusterScope, admissionv1.NamespacedScope)...)
	}
	return all
}

// validateRuleResources returns the errors of resources and subresources, either of which may be *.
func validateRuleResources(resources []string, at *field.Path) (all field.ErrorList) {
	if len(resources) == 0 {
		all = append(all, field.Required(at, ""))
	}
	allOf, allWith := map[string]bool{}, map[string]bool{} // resources of x/*, subresources of */x
	plain := false
	for i, r := range resources {
		if r == "" {
			all = append(all, field.Required(at.Index(i), ""))
			continue
		}
		name, sub, found := strings.Cut(r, "/")
		if !found {
			plain = r != "*"
			continue
		}
		if allOf[name] {
			all = append(all, field.Invalid(at.Index(i), r, fmt.Sprintf("if '%s/*' is present, must not specify %s", name, r)))
		}
		if allWith[sub] {
			all = append(all, field.Invalid(at.Index(i), r, fmt.Sprintf("if '*/%s' is present, must not specify %s", sub, r)))
		}
		allOf[name] = allOf[name] || sub == "*"
		allWith[sub] = allWith[sub] || name == "*"
	}
	if len(resources) > 1 && slices.Contains(resources, "*/*") {
		all = append(all, field.Invalid(at, resources, "if '*/*' is present, must not specify other resources"))
	}
	if plain && slices.Contains(resources, "*") {
		all = append(all, field.Invalid(at, resources, "if '*' is present, must not specify other resources without subresources"))
	}
	return all
}
