package tables

import (
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ValidatingWebhookConfigurations is the table of validating webhook configurations.
func ValidatingWebhookConfigurations() Table[admissionv1.ValidatingWebhookConfiguration] {
	return Table[admissionv1.ValidatingWebhookConfiguration]{
		Columns: webhookColumns(),
		Cells: func(c *admissionv1.ValidatingWebhookConfiguration, now time.Time) []any {
			return []any{c.Name, int64(len(c.Webhooks)), age(c.ObjectMeta, now)}
		},
	}
}

// MutatingWebhookConfigurations is the table of mutating webhook configurations.
func MutatingWebhookConfigurations() Table[admissionv1.MutatingWebhookConfiguration] {
	return Table[admissionv1.MutatingWebhookConfiguration]{
		Columns: webhookColumns(),
		Cells: func(c *admissionv1.MutatingWebhookConfiguration, now time.Time) []any {
			return []any{c.Name, int64(len(c.Webhooks)), age(c.ObjectMeta, now)}
		},
	}
}

func webhookColumns() []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		nameColumn(), count("Webhooks", "Webhooks indicates the number of webhooks registered in this configuration"), ageColumn(),
	}
}

// ValidatingAdmissionPolicies is the table of validating admission policies.
func ValidatingAdmissionPolicies() Table[admissionv1.ValidatingAdmissionPolicy] {
	return Table[admissionv1.ValidatingAdmissionPolicy]{
		Columns: policyColumns(count("Validations", "Validations indicates the number of validation rules defined in this configuration")),
		Cells: func(p *admissionv1.ValidatingAdmissionPolicy, now time.Time) []any {
			return []any{p.Name, int64(len(p.Spec.Validations)), paramKindCell(p.Spec.ParamKind), age(p.ObjectMeta, now)}
		},
	}
}

// MutatingAdmissionPolicies is the table of mutating admission policies.
func MutatingAdmissionPolicies() Table[admissionv1.MutatingAdmissionPolicy] {
	return Table[admissionv1.MutatingAdmissionPolicy]{
		Columns: policyColumns(count("Mutations", "Mutation indicates the number of mutations rules defined in this configuration")),
		Cells: func(p *admissionv1.MutatingAdmissionPolicy, now time.Time) []any {
			return []any{p.Name, int64(len(p.Spec.Mutations)), paramKindCell(p.Spec.ParamKind), age(p.ObjectMeta, now)}
		},
	}
}

func policyColumns(rules metav1.TableColumnDefinition) []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		nameColumn(), rules, column("ParamKind", "ParamKind specifies the kind of resources used to parameterize this policy"), ageColumn(),
	}
}

func paramKindCell(kind *admissionv1.ParamKind) string {
	if kind == nil {
		return "<unset>"
	}
	return kind.APIVersion + "/" + kind.Kind
}

// ValidatingAdmissionPolicyBindings is the table of validating admission policy bindings.
func ValidatingAdmissionPolicyBindings() Table[admissionv1.ValidatingAdmissionPolicyBinding] {
	return Table[admissionv1.ValidatingAdmissionPolicyBinding]{
		Columns: policyBindingColumns(),
		Cells: func(b *admissionv1.ValidatingAdmissionPolicyBinding, now time.Time) []any {
			return []any{b.Name, b.Spec.PolicyName, paramRefCell(b.Spec.ParamRef), age(b.ObjectMeta, now)}
		},
	}
}

// MutatingAdmissionPolicyBindings is the table of mutating admission policy bindings.
func MutatingAdmissionPolicyBindings() Table[admissionv1.MutatingAdmissionPolicyBinding] {
	return Table[admissionv1.MutatingAdmissionPolicyBinding]{
		Columns: policyBindingColumns(),
		Cells: func(b *admissionv1.MutatingAdmissionPolicyBinding, now time.Time) []any {
			return []any{b.Name, b.Spec.PolicyName, paramRefCell(b.Spec.ParamRef), age(b.ObjectMeta, now)}
		},
	}
}

func policyBindingColumns() []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		nameColumn(),
		column("PolicyName", "PolicyName indicates the policy definition which the policy binding binded to"),
		column("ParamRef", "ParamRef indicates the param resource which sets the configuration param"),
		ageColumn(),
	}
}

func paramRefCell(ref *admissionv1.ParamRef) string {
	switch {
	case ref == nil:
	case ref.Name != "" && ref.Namespace != "":
		return ref.Namespace + "/" + ref.Name
	case ref.Name != "":
		return "*/" + ref.Name // whether the parameter has a namespace is not known here
	case ref.Selector != nil:
		return ref.Selector.String()
	}
	return "<unset>"
}

// count is a column of a number.
func count(name, description string) metav1.TableColumnDefinition {
	column := column(name, description)
	column.Type = "integer"
	return column
}
