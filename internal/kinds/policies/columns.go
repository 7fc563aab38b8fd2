package policies

import (
	"time"

	"github.com/kapok-dev/kapok/internal/kinds/kind"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// validatingWebhookConfigurationsTable is the table of validating webhook configurations.
func validatingWebhookConfigurationsTable() kind.Table[*admissionv1.ValidatingWebhookConfiguration] {
	return kind.Table[*admissionv1.ValidatingWebhookConfiguration]{
		Columns: webhookColumns(),
		Cells: func(c *admissionv1.ValidatingWebhookConfiguration, now time.Time) []any {
			return []any{c.Name, int64(len(c.Webhooks)), kind.Age(c.ObjectMeta, now)}
		},
	}
}

// mutatingWebhookConfigurationsTable is the table of mutating webhook configurations.
func mutatingWebhookConfigurationsTable() kind.Table[*admissionv1.MutatingWebhookConfiguration] {
	return kind.Table[*admissionv1.MutatingWebhookConfiguration]{
		Columns: webhookColumns(),
		Cells: func(c *admissionv1.MutatingWebhookConfiguration, now time.Time) []any {
			return []any{c.Name, int64(len(c.Webhooks)), kind.Age(c.ObjectMeta, now)}
		},
	}
}

func webhookColumns() []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		kind.NameColumn(), count("Webhooks", "Webhooks indicates the number of webhooks registered in this configuration"), kind.AgeColumn(),
	}
}

// validatingAdmissionPoliciesTable is the table of validating admission policies.
func validatingAdmissionPoliciesTable() kind.Table[*admissionv1.ValidatingAdmissionPolicy] {
	return kind.Table[*admissionv1.ValidatingAdmissionPolicy]{
		Columns: policyColumns(count("Validations", "Validations indicates the number of validation rules defined in this configuration")),
		Cells: func(p *admissionv1.ValidatingAdmissionPolicy, now time.Time) []any {
			return []any{p.Name, int64(len(p.Spec.Validations)), paramKindCell(p.Spec.ParamKind), kind.Age(p.ObjectMeta, now)}
		},
	}
}

// mutatingAdmissionPoliciesTable is the table of mutating admission policies.
func mutatingAdmissionPoliciesTable() kind.Table[*admissionv1.MutatingAdmissionPolicy] {
	return kind.Table[*admissionv1.MutatingAdmissionPolicy]{
		Columns: policyColumns(count("Mutations", "Mutation indicates the number of mutations rules defined in this configuration")),
		Cells: func(p *admissionv1.MutatingAdmissionPolicy, now time.Time) []any {
			return []any{p.Name, int64(len(p.Spec.Mutations)), paramKindCell(p.Spec.ParamKind), kind.Age(p.ObjectMeta, now)}
		},
	}
}

func policyColumns(rules metav1.TableColumnDefinition) []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		kind.NameColumn(), rules, kind.Column("ParamKind", "ParamKind specifies the kind of resources used to parameterize this policy"), kind.AgeColumn(),
	}
}

func paramKindCell(kind *admissionv1.ParamKind) string {
	if kind == nil {
		return "<unset>"
	}
	return kind.APIVersion + "/" + kind.Kind
}

// validatingAdmissionPolicyBindingsTable is the table of validating admission policy bindings.
func validatingAdmissionPolicyBindingsTable() kind.Table[*admissionv1.ValidatingAdmissionPolicyBinding] {
	return kind.Table[*admissionv1.ValidatingAdmissionPolicyBinding]{
		Columns: policyBindingColumns(),
		Cells: func(b *admissionv1.ValidatingAdmissionPolicyBinding, now time.Time) []any {
			return []any{b.Name, b.Spec.PolicyName, paramRefCell(b.Spec.ParamRef), kind.Age(b.ObjectMeta, now)}
		},
	}
}

// mutatingAdmissionPolicyBindingsTable is the table of mutating admission policy bindings.
func mutatingAdmissionPolicyBindingsTable() kind.Table[*admissionv1.MutatingAdmissionPolicyBinding] {
	return kind.Table[*admissionv1.MutatingAdmissionPolicyBinding]{
		Columns: policyBindingColumns(),
		Cells: func(b *admissionv1.MutatingAdmissionPolicyBinding, now time.Time) []any {
			return []any{b.Name, b.Spec.PolicyName, paramRefCell(b.Spec.ParamRef), kind.Age(b.ObjectMeta, now)}
		},
	}
}

func policyBindingColumns() []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		kind.NameColumn(),
		kind.Column("PolicyName", "PolicyName indicates the policy definition which the policy binding binded to"),
		kind.Column("ParamRef", "ParamRef indicates the param resource which sets the configuration param"),
		kind.AgeColumn(),
	}
}

func paramRefCell(ref *admissionv1.ParamRef) string {
	switch {
	case ref == nil:
	case ref.Name != "" && ref.Namespace != "":
		return ref.Namespace + "/" + ref.Name
	case ref.Name != "":
		return "*/" + ref.Name // the scope of the parameter's kind is not known here
	case ref.Selector != nil:
		return ref.Selector.String()
	}
	return "<unset>"
}

// count is a column of integers.
func count(name, description string) metav1.TableColumnDefinition {
	column := kind.Column(name, description)
	column.Type = "integer"
	return column
}
