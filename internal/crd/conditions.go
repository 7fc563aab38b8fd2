package crd

import (
	"fmt"
	"time"

	"github.com/kapok-dev/kapok/internal/webhook/clientconfig"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// review updates the status of a definition: its names, and the conditions that follow from the
// names and the spec. everywhere reports that every server serves the definition, which is then
// established. It reports whether the status changed.
func review(m *manifest, taken nameSet, everywhere bool, now time.Time) bool {
	status, changed := &m.Status, false
	set := func(c apiextensionsv1.CustomResourceDefinitionCondition) {
		changed = setCondition(&status.Conditions, c, now) || changed
	}
	if c := approval(m); c != nil {
		set(*c)
	}
	if c := nonStructural(m); c != nil {
		set(*c)
	} else {
		changed = removeCondition(&status.Conditions, apiextensionsv1.NonStructuralSchema) || changed
	}
	if !sameNames(&m.Spec.Names, &status.AcceptedNames) {
		names, verdict := accept(m.Spec.Names, status.AcceptedNames, taken)
		changed = changed || !sameNames(&names, &status.AcceptedNames)
		status.AcceptedNames = names
		set(verdict)
	}
	if !m.is(apiextensionsv1.Established) {
		c := established(m)
		if c.Status == apiextensionsv1.ConditionTrue && !everywhere {
			c.Status, c.Reason = apiextensionsv1.ConditionFalse, installing
		}
		set(c)
	}
	return changed
}

// established returns the condition of a definition that has not been established yet. An
// established definition stays so, even if later names are refused.
func established(m *manifest) apiextensionsv1.CustomResourceDefinitionCondition {
	c := apiextensionsv1.CustomResourceDefinitionCondition{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionFalse}
	switch {
	case !m.is(apiextensionsv1.NamesAccepted):
		c.Reason, c.Message = "NotAccepted", "not all names are accepted"
	case hasInvalidCABundle(m.Spec.Conversion):
		c.Reason, c.Message = "InvalidCABundle", "The conversion webhook CABundle is invalid"
	default:
		c.Status, c.Reason, c.Message = apiextensionsv1.ConditionTrue, "InitialNamesAccepted", "the initial names have been accepted"
	}
	return c
}

func hasInvalidCABundle(c *apiextensionsv1.CustomResourceConversion) bool {
	return c != nil && c.Webhook != nil && c.Webhook.ClientConfig != nil &&
		len(clientconfig.ValidateCABundle(c.Webhook.ClientConfig.CABundle, field.NewPath(""))) > 0
}

// approval returns the condition on the approval of a definition in one of the groups of the
// Kubernetes community; nil for all other groups.
func approval(m *manifest) *apiextensionsv1.CustomResourceDefinitionCondition {
	if !apihelpers.IsProtectedCommunityGroup(m.Spec.Group) {
		return nil
	}
	c := &apiextensionsv1.CustomResourceDefinitionCondition{
		Type:   apiextensionsv1.KubernetesAPIApprovalPolicyConformant,
		Status: apiextensionsv1.ConditionFalse,
	}
	state, message := apihelpers.GetAPIApprovalState(m.Metadata.Annotations)
	c.Message = message
	switch state {
	case apihelpers.APIApproved:
		c.Status, c.Reason = apiextensionsv1.ConditionTrue, "ApprovedAnnotation"
	case apihelpers.APIApprovalBypassed:
		c.Reason = "UnapprovedAnnotation"
	case apihelpers.APIApprovalMissing:
		c.Reason = "MissingAnnotation"
	case apihelpers.APIApprovalInvalid:
		c.Reason = "InvalidAnnotation"
	default:
		c.Status, c.Reason = apiextensionsv1.ConditionUnknown, "UnknownAnnotation"
	}
	return c
}

// nonStructural returns the condition that lists what makes the schemas non-structural, or nil if
// all are structural. Validation rejects such schemas except in definitions that preserve unknown
// fields.
func nonStructural(m *manifest) *apiextensionsv1.CustomResourceDefinitionCondition {
	if !m.Spec.PreserveUnknownFields {
		return nil
	}
	c := &apiextensionsv1.CustomResourceDefinitionCondition{
		Type:   apiextensionsv1.NonStructuralSchema,
		Status: apiextensionsv1.ConditionTrue,
		Reason: "Violations",
	}
	errs := field.ErrorList{field.Invalid(field.NewPath("spec", "preserveUnknownFields"), true, "must be false")}
	for i, v := range m.Spec.Versions {
		s, err := structural(m, v.Name)
		if err != nil {
			c.Status, c.Reason = apiextensionsv1.ConditionUnknown, "StructuralError"
			c.Message = fmt.Sprintf("failed to check validation schema for version %s: %v", v.Name, err)
			return c
		}
		if s != nil {
			at := field.NewPath("spec", "versions").Index(i).Child("schema", "openAPIV3Schema")
			errs = append(errs, structuralschema.ValidateStructural(at, s)...)
		}
	}
	c.Message = errs.ToAggregate().Error()
	return c
}

// structural returns the schema of a version in the form that the library validates, or nil if the
// version has none.
func structural(m *manifest, version string) (*structuralschema.Structural, error) {
	s, err := readSchema(m.object, version)
	if err != nil || s == nil {
		return nil, err
	}
	internal := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(s, internal, nil); err != nil {
		return nil, err
	}
	return structuralschema.NewStructural(internal)
}
