package policies

import (
	"context"
	"strings"

	"github.com/kapok-dev/kapok/internal/kinds/rule"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateMutatingAdmissionPolicy(ctx context.Context, p, old *admissionv1.MutatingAdmissionPolicy) field.ErrorList {
	all := validateNotStatic(p.Name, old == nil)
	spec, at := &p.Spec, field.NewPath("spec")
	x := policyCompiler(ctx, spec.ParamKind, true)
	all = append(all, validatePolicyHead(spec.FailurePolicy, spec.ParamKind, spec.MatchConstraints, at)...)
	all = append(all, validateMutable(spec.MatchConstraints, at.Child("matchConstraints"))...)

	conditions, mutations := map[string]bool{}, map[string]bool{}
	if old != nil {
		for _, c := range old.Spec.MatchConditions {
			conditions[c.Expression] = true
		}
		for _, m := range old.Spec.Mutations {
			if m.ApplyConfiguration != nil {
				mutations[strings.TrimSpace(m.ApplyConfiguration.Expression)] = true
			}
		}
	}
	if old == nil || !equality.Semantic.DeepEqual(spec.ParamKind, old.Spec.ParamKind) ||
		!equality.Semantic.DeepEqual(spec.MatchConditions, old.Spec.MatchConditions) {
		all = append(all, validateMatchConditions(spec.MatchConditions, x.knowing(conditions), at.Child("matchConditions"))...)
	}
	all = append(all, validateVariables(spec.Variables, x, at.Child("variables"))...)
	if len(spec.Mutations) == 0 {
		all = append(all, field.Required(at.Child("mutations"), "mutations must contain at least one item"))
	}
	x.HasPatchTypes = true
	for i := range spec.Mutations {
		all = append(all, validateMutation(&spec.Mutations[i], x.knowing(mutations), at.Child("mutations").Index(i))...)
	}
	return append(all, rule.OneOf(at.Child("reinvocationPolicy"), spec.ReinvocationPolicy, admissionv1.IfNeededReinvocationPolicy, admissionv1.NeverReinvocationPolicy)...)
}

// validateMutable rejects rules for the operations DELETE and CONNECT, whose objects cannot be
// mutated.
func validateMutable(match *admissionv1.MatchResources, at *field.Path) (all field.ErrorList) {
	if match == nil {
		return nil
	}
	for _, entry := range match.ResourceRules {
		for _, o := range entry.Operations {
			all = append(all, rule.Supported(at.Child("resourceRules", "operations"), o, admissionv1.OperationAll, admissionv1.Connect, admissionv1.Create, admissionv1.Update)...)
		}
	}
	return all
}

func validateMutation(m *admissionv1.Mutation, x expressions, at *field.Path) (all field.ErrorList) {
	apply, patch := at.Child("applyConfiguration"), at.Child("jsonPatch")
	switch m.PatchType {
	case admissionv1.PatchTypeJSONPatch:
		if m.JSONPatch == nil {
			all = append(all, field.Required(patch, "must be specified when patchType is JSONPatch"))
		} else if text := strings.TrimSpace(m.JSONPatch.Expression); text == "" {
			all = append(all, field.Required(patch.Child("expression"), ""))
		} else {
			all = append(all, x.compile(text, patchTypes, patch.Child("expression"))...)
		}
		if m.ApplyConfiguration != nil {
			all = append(all, field.Invalid(apply, "{applyConfiguration}", "must not be specified when patchType is JSONPatch"))
		}
		return all
	case admissionv1.PatchTypeApplyConfiguration:
		if m.ApplyConfiguration == nil {
			all = append(all, field.Required(apply, "must be specified when patchType is ApplyConfiguration"))
		} else if text := strings.TrimSpace(m.ApplyConfiguration.Expression); text == "" {
			all = append(all, field.Required(apply.Child("expression"), ""))
		} else {
			all = append(all, x.compile(text, configurationTypes, apply.Child("expression"))...)
		}
		if m.JSONPatch != nil {
			all = append(all, field.Invalid(patch, "{jsonPatch}", "must not be specified when patchType is ApplyConfiguration"))
		}
		return all
	}
	return rule.OneOf(at.Child("patchType"), m.PatchType, admissionv1.PatchTypeApplyConfiguration, admissionv1.PatchTypeJSONPatch)
}
