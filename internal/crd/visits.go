package crd

import (
	"fmt"

	"github.com/kapok-dev/kapok/internal/celwork"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// mostVisits bounds the work of validating the rules and defaults of a definition: about a
	// second of processor time. Of 627 definitions of published operators, the costliest has
	// 14,813, which is HTTPRoute of the Gateway API.
	mostVisits = 200_000
	// schemaVisits is the cost of visiting one schema below a rule, where a visit for a default
	// costs one.
	schemaVisits = 4
	// ruleVisits is the cost of compiling one rule.
	ruleVisits = 100
	// unitsOfVisit is the work of an expression, beyond that of any, which costs one more.
	unitsOfVisit = 50
)

// validateVisits rejects a definition whose rules and defaults take too long to validate: without a
// bound, 3 MB of rules take minutes. Rules and defaults are compiled against all schemas below
// them, so that the time grows with the square of the depth: 66 KB with a rule at each of 800
// levels take eight seconds. Updates of a stored definition are not bounded if it already exceeds
// the bound.
func validateVisits(obj, old *apiextensions.CustomResourceDefinition) field.ErrorList {
	n := visitsOf(obj)
	if n <= mostVisits || old != nil && n <= visitsOf(old) {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec"), fmt.Sprintf(
		"the rules and defaults of all versions cost %d to validate, where a rule costs %d and more if it is complex, and each schema at or below a schema with rules %d: must be at most %d",
		n, ruleVisits, schemaVisits, mostVisits))}
}

// visitsOf returns the cost of all schemas of a definition.
func visitsOf(d *apiextensions.CustomResourceDefinition) int {
	visits := 0
	if v := d.Spec.Validation; v != nil {
		countVisits(v.OpenAPIV3Schema, &visits)
	}
	for _, v := range d.Spec.Versions {
		if v.Schema != nil {
			countVisits(v.Schema.OpenAPIV3Schema, &visits)
		}
	}
	return visits
}

// countVisits returns the number of schemas in s, itself included, and adds the cost of its rules
// and defaults to visits.
func countVisits(s *apiextensions.JSONSchemaProps, visits *int) (size int) {
	if s == nil {
		return 0
	}
	size = 1 + countVisits(s.Not, visits)
	for _, list := range [][]apiextensions.JSONSchemaProps{s.AllOf, s.AnyOf, s.OneOf} {
		for i := range list {
			size += countVisits(&list[i], visits)
		}
	}
	for _, m := range []map[string]apiextensions.JSONSchemaProps{s.Properties, s.PatternProperties, s.Definitions} {
		for _, below := range m {
			size += countVisits(&below, visits)
		}
	}
	if s.Items != nil {
		size += countVisits(s.Items.Schema, visits)
		for i := range s.Items.JSONSchemas {
			size += countVisits(&s.Items.JSONSchemas[i], visits)
		}
	}
	for _, below := range []*apiextensions.JSONSchemaPropsOrBool{s.AdditionalProperties, s.AdditionalItems} {
		if below != nil {
			size += countVisits(below.Schema, visits)
		}
	}
	if s.Default != nil {
		*visits += size
	}
	if n := len(s.XValidations); n > 0 {
		*visits += n*ruleVisits + size*schemaVisits
		for _, r := range s.XValidations {
			*visits += visitsFor(r.Rule) + visitsFor(r.MessageExpression)
		}
	}
	return size
}

// visitsFor returns what an expression costs in addition. One beyond the limit exceeds the bound of
// the definition.
func visitsFor(expr string) int {
	if expr == "" {
		return 0
	}
	work := celwork.Estimate(expr)
	if work > celwork.Limit {
		return mostVisits
	}
	return max(0, work-celwork.ExpressionWork) / unitsOfVisit
}
