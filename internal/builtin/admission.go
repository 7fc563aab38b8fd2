package builtin

import (
	"fmt"
	"slices"

	"github.com/kapok-dev/kapok/internal/builtin/tables"
	"github.com/kapok-dev/kapok/internal/builtin/validation"
	"github.com/kapok-dev/kapok/internal/resource"

	admissionv1 "k8s.io/api/admissionregistration/v1"
)

// admission is the group of those who are asked before something is written.
func admission() []row {
	v1 := admissionv1.SchemeGroupVersion
	categories := []string{"api-extensions"}
	return []row{
		kind[admissionv1.ValidatingWebhookConfiguration]{
			version:       v1,
			plural:        "validatingwebhookconfigurations",
			categories:    categories,
			clusterScoped: true,
			defaults:      fill[admissionv1.ValidatingWebhookConfiguration],
			validate:      validation.ValidatingWebhookConfiguration,
			generation:    []string{"webhooks"},
			table:         tables.ValidatingWebhookConfigurations(),
			versioned:     true,
			hooks:         resource.Hooks{Warnings: warnOfUnasked},
		}.row(),
		kind[admissionv1.MutatingWebhookConfiguration]{
			version:       v1,
			plural:        "mutatingwebhookconfigurations",
			categories:    categories,
			clusterScoped: true,
			defaults:      fill[admissionv1.MutatingWebhookConfiguration],
			validate:      validation.MutatingWebhookConfiguration,
			generation:    []string{"webhooks"},
			table:         tables.MutatingWebhookConfigurations(),
			versioned:     true,
			hooks:         resource.Hooks{Warnings: warnOfUnasked},
		}.row(),
		kind[admissionv1.ValidatingAdmissionPolicy]{
			version:       v1,
			plural:        "validatingadmissionpolicies",
			categories:    categories,
			clusterScoped: true,
			defaults:      fill[admissionv1.ValidatingAdmissionPolicy],
			validate:      validation.ValidatingAdmissionPolicy,
			status:        &status[admissionv1.ValidatingAdmissionPolicy]{validate: validation.ValidatingAdmissionPolicyStatus, keeps: clientMetadata},
			generation:    []string{"spec"},
			table:         tables.ValidatingAdmissionPolicies(),
			versioned:     true,
		}.row(),
		kind[admissionv1.ValidatingAdmissionPolicyBinding]{
			version:       v1,
			plural:        "validatingadmissionpolicybindings",
			categories:    categories,
			clusterScoped: true,
			defaults:      fill[admissionv1.ValidatingAdmissionPolicyBinding],
			validate:      validation.ValidatingAdmissionPolicyBinding,
			generation:    []string{"spec"},
			table:         tables.ValidatingAdmissionPolicyBindings(),
			versioned:     true,
		}.row(),
		kind[admissionv1.MutatingAdmissionPolicy]{
			version:       v1,
			plural:        "mutatingadmissionpolicies",
			categories:    categories,
			clusterScoped: true,
			defaults:      fill[admissionv1.MutatingAdmissionPolicy],
			validate:      validation.MutatingAdmissionPolicy,
			generation:    []string{"spec"},
			table:         tables.MutatingAdmissionPolicies(),
			versioned:     true,
		}.row(),
		kind[admissionv1.MutatingAdmissionPolicyBinding]{
			version:       v1,
			plural:        "mutatingadmissionpolicybindings",
			categories:    categories,
			clusterScoped: true,
			defaults:      fill[admissionv1.MutatingAdmissionPolicyBinding],
			validate:      validation.MutatingAdmissionPolicyBinding,
			generation:    []string{"spec"},
			table:         tables.MutatingAdmissionPolicyBindings(),
			versioned:     true,
		}.row(),
	}
}

// clientMetadata is all that clients write in the metadata. Many kinds let none
// of it be written with the status.
var clientMetadata = []string{"metadata.labels", "metadata.annotations", "metadata.finalizers", "metadata.ownerReferences"}

// unasked are the resources about which no webhook is asked, as nothing would work
// any more if one did not answer.
var unasked = map[string]bool{
	"selfsubjectreviews.authentication.k8s.io":       true,
	"tokenreviews.authentication.k8s.io":             true,
	"localsubjectaccessreviews.authorization.k8s.io": true,
	"selfsubjectaccessreviews.authorization.k8s.io":  true,
	"selfsubjectrulesreviews.authorization.k8s.io":   true,
	"subjectaccessreviews.authorization.k8s.io":      true,
}

// warnOfUnasked warns of rules that say by name what no webhook is asked about.
func warnOfUnasked(obj, _ resource.Tree) (warnings []string) {
	hooks := decoded[admissionv1.ValidatingWebhookConfiguration](resource.Tree{"webhooks": obj["webhooks"]}).Webhooks
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
