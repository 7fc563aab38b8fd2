package policies

import (
	"fmt"
	"slices"

	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/resource"

	admissionv1 "k8s.io/api/admissionregistration/v1"
)

// Kinds returns the kinds of group admissionregistration.k8s.io.
func Kinds() []kind.Row {
	v1 := admissionv1.SchemeGroupVersion
	categories := []string{"api-extensions"}
	return []kind.Row{
		kind.Kind[*admissionv1.ValidatingWebhookConfiguration]{
			Version:         v1,
			Plural:          "validatingwebhookconfigurations",
			Categories:      categories,
			ClusterScoped:   true,
			Filled:          true,
			ValidateContext: validateValidatingWebhookConfiguration,
			Generation:      []string{"webhooks"},
			Table:           validatingWebhookConfigurationsTable(),
			Versioned:       true,
			Strategy:        resource.Strategy{Warnings: warnOfUnasked},
		}.Row(),
		kind.Kind[*admissionv1.MutatingWebhookConfiguration]{
			Version:         v1,
			Plural:          "mutatingwebhookconfigurations",
			Categories:      categories,
			ClusterScoped:   true,
			Filled:          true,
			ValidateContext: validateMutatingWebhookConfiguration,
			Generation:      []string{"webhooks"},
			Table:           mutatingWebhookConfigurationsTable(),
			Versioned:       true,
			Strategy:        resource.Strategy{Warnings: warnOfUnasked},
		}.Row(),
		kind.Kind[*admissionv1.ValidatingAdmissionPolicy]{
			Version:         v1,
			Plural:          "validatingadmissionpolicies",
			Categories:      categories,
			ClusterScoped:   true,
			Filled:          true,
			ValidateContext: validateValidatingAdmissionPolicy,
			Status:          &kind.Status[*admissionv1.ValidatingAdmissionPolicy]{Validate: validateValidatingAdmissionPolicyStatus, Keeps: kind.ClientMetadata},
			Generation:      []string{"spec"},
			Table:           validatingAdmissionPoliciesTable(),
			Versioned:       true,
		}.Row(),
		kind.Kind[*admissionv1.ValidatingAdmissionPolicyBinding]{
			Version:       v1,
			Plural:        "validatingadmissionpolicybindings",
			Categories:    categories,
			ClusterScoped: true,
			Filled:        true,
			Validate:      validateValidatingAdmissionPolicyBinding,
			Generation:    []string{"spec"},
			Table:         validatingAdmissionPolicyBindingsTable(),
			Versioned:     true,
		}.Row(),
		kind.Kind[*admissionv1.MutatingAdmissionPolicy]{
			Version:         v1,
			Plural:          "mutatingadmissionpolicies",
			Categories:      categories,
			ClusterScoped:   true,
			Filled:          true,
			ValidateContext: validateMutatingAdmissionPolicy,
			Generation:      []string{"spec"},
			Table:           mutatingAdmissionPoliciesTable(),
			Versioned:       true,
		}.Row(),
		kind.Kind[*admissionv1.MutatingAdmissionPolicyBinding]{
			Version:       v1,
			Plural:        "mutatingadmissionpolicybindings",
			Categories:    categories,
			ClusterScoped: true,
			Filled:        true,
			Validate:      validateMutatingAdmissionPolicyBinding,
			Generation:    []string{"spec"},
			Table:         mutatingAdmissionPolicyBindingsTable(),
			Versioned:     true,
		}.Row(),
	}
}

// unasked are the resources for which webhooks are not called: a webhook that does not answer would
// block its own repair.
var unasked = map[string]bool{
	"selfsubjectreviews.authentication.k8s.io":       true,
	"tokenreviews.authentication.k8s.io":             true,
	"localsubjectaccessreviews.authorization.k8s.io": true,
	"selfsubjectaccessreviews.authorization.k8s.io":  true,
	"selfsubjectrulesreviews.authorization.k8s.io":   true,
	"subjectaccessreviews.authorization.k8s.io":      true,
}

// warnOfUnasked warns of rules that name resources for which webhooks are not called.
func warnOfUnasked(obj, _ resource.Tree) (warnings []string) {
	hooks := kind.Decoded[admissionv1.ValidatingWebhookConfiguration](resource.Tree{"webhooks": obj["webhooks"]}).Webhooks
	for i, hook := range hooks {
		for j, rule := range hook.Rules {
			if slices.Contains(rule.APIGroups, "*") || slices.Contains(rule.Resources, "*") {
				continue
			}
			for _, group := range rule.APIGroups {
				for _, plural := range rule.Resources {
					if name := plural + "." + group; unasked[name] {
						warnings = append(warnings, fmt.Sprintf("webhooks[%d].rules[%d]: %s is excluded from admission webhooks; this rule will have no effect", i, j, name))
					}
				}
			}
		}
	}
	return warnings
}
