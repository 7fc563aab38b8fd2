package policies

import (
	"slices"

	"github.com/kapok-dev/kapok/internal/kinds/rule"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateValidatingAdmissionPolicyBinding(b, old *admissionv1.ValidatingAdmissionPolicyBinding) field.ErrorList {
	all := validateNotStatic(b.Name, old == nil)
	spec, at := &b.Spec, field.NewPath("spec")
	if spec.PolicyName != "" {
		all = append(all, rule.Invalid(at.Child("policyName"), spec.PolicyName, apivalidation.NameIsDNSSubdomain(spec.PolicyName, false))...)
	}
	all = append(all, validateParamRef(spec.ParamRef, at.Child("paramRef"))...)
	all = append(all, validateMatchResources(spec.MatchResources, at.Child("matchResources"))...)
	all = append(all, validateActions(spec.ValidationActions, at.Child("validationActions"))...)
	if spec.PolicyName == "" {
		all = append(all, field.Required(at.Child("policyName"), ""))
	}
	if len(spec.ValidationActions) == 0 {
		all = append(all, field.Required(at.Child("validationActions"), ""))
	}
	return all
}

func validateActions(actions []admissionv1.ValidationAction, at *field.Path) (all field.ErrorList) {
	repeats := rule.Repeats[admissionv1.ValidationAction]()
	for i, action := range actions {
		all = append(all, rule.Supported(at.Index(i), action, admissionv1.Audit, admissionv1.Deny, admissionv1.Warn)...)
		if repeats(action) {
			all = append(all, field.Duplicate(at.Index(i), action))
		}
	}
	if slices.Contains(actions, admissionv1.Deny) && slices.Contains(actions, admissionv1.Warn) {
		all = append(all, field.Invalid(at, actions,
			"must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)"))
	}
	return all
}

func validateMutatingAdmissionPolicyBinding(b, old *admissionv1.MutatingAdmissionPolicyBinding) field.ErrorList {
	all := validateNotStatic(b.Name, old == nil)
	spec, at := &b.Spec, field.NewPath("spec")
	if spec.PolicyName == "" {
		all = append(all, field.Required(at.Child("policyName"), ""))
	} else {
		all = append(all, rule.Invalid(at.Child("policyName"), spec.PolicyName, apivalidation.NameIsDNSSubdomain(spec.PolicyName, false))...)
	}
	all = append(all, validateParamRef(spec.ParamRef, at.Child("paramRef"))...)
	all = append(all, validateMatchResources(spec.MatchResources, at.Child("matchResources"))...)
	return append(all, validateMutable(spec.MatchResources, at.Child("matchResources"))...)
}

func validateParamRef(ref *admissionv1.ParamRef, at *field.Path) (all field.ErrorList) {
	if ref == nil {
		return nil
	}
	const exclusive = "name and selector are mutually exclusive"
	if ref.Name != "" {
		all = append(all, rule.Invalid(at.Child("name"), ref.Name, path.ValidatePathSegmentName(ref.Name, false))...)
		if ref.Selector != nil {
			all = append(all, field.Forbidden(at.Child("name"), exclusive))
		}
	}
	if ref.Selector != nil {
		all = append(all, metav1validation.ValidateLabelSelector(ref.Selector, metav1validation.LabelSelectorValidationOptions{}, at.Child("selector"))...)
		if ref.Name != "" {
			all = append(all, field.Forbidden(at.Child("selector"), exclusive))
		}
	}
	if ref.Name == "" && ref.Selector == nil {
		all = append(all, field.Required(at, "one of name or selector must be specified"))
	}
	if action := ref.ParameterNotFoundAction; action == nil {
		return append(all, field.Required(at.Child("parameterNotFoundAction"), ""))
	}
	return append(all, rule.OneOf(at.Child("parameterNotFoundAction"), *ref.ParameterNotFoundAction, admissionv1.DenyAction, admissionv1.AllowAction)...)
}

func validateMatchResources(m *admissionv1.MatchResources, at *field.Path) (all field.ErrorList) {
	if m == nil {
		return nil
	}
	all = append(all, rule.Supported(at.Child("matchPolicy"), *m.MatchPolicy, admissionv1.Equivalent, admissionv1.Exact)...)
	strict := metav1validation.LabelSelectorValidationOptions{}
	all = append(all, metav1validation.ValidateLabelSelector(m.NamespaceSelector, strict, at.Child("namespaceSelector"))...)
	all = append(all, metav1validation.ValidateLabelSelector(m.ObjectSelector, strict, at.Child("objectSelector"))...)
	for i := range m.ResourceRules {
		all = append(all, validateNamedRule(&m.ResourceRules[i], at.Child("resourceRules").Index(i))...)
	}
	for i := range m.ExcludeResourceRules {
		all = append(all, validateNamedRule(&m.ExcludeResourceRules[i], at.Child("excludeResourceRules").Index(i))...)
	}
	return all
}

// validateNamedRule returns the errors of a rule with optional resource names.
func validateNamedRule(r *admissionv1.NamedRuleWithOperations, at *field.Path) (all field.ErrorList) {
	repeats := rule.Repeats[string]()
	for i, name := range r.ResourceNames {
		at := at.Child("resourceNames").Index(i)
		all = append(all, rule.Invalid(at, name, path.ValidatePathSegmentName(name, false))...)
		if repeats(name) {
			all = append(all, field.Duplicate(at, name))
		}
	}
	return append(all, validateOperationRule(&r.RuleWithOperations, at)...)
}
