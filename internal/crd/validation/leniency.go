package validation

import (
	"reflect"
	"slices"

	"github.com/kapok-dev/kapok/internal/webhook/clientconfig"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// leniency is which rules do not apply to an update, as the old definition violates them.
type leniency struct {
	noSchemas      bool // versions may have no schema
	unknownTypes   bool
	notStructural  bool
	unpruned       bool // defaults may have unknown fields
	granularSets   bool // items of sets need not be atomic
	listKeys       bool // items and keys of lists of type map or set may be absent or null
	unknownReviews bool // no version of ConversionReview is known
	invalidBundles bool

	unchanged  map[string]bool // versions with the same schema as before: each rule may be as expensive as it is
	selectable map[string]bool // versions with the same selectable fields as before, of which there may be too many
	rules      map[string]bool // expressions that the old definition has; nil for none
	messages   map[string]bool // likewise, those of messages
}

func leniencyOf(obj, old *apiextensions.CustomResourceDefinition) leniency {
	spec := &old.Spec
	l := leniency{
		noSchemas:      !allHaveSchemas(spec),
		notStructural:  slices.ContainsFunc(roots(spec), notStructural),
		unpruned:       slices.ContainsFunc(roots(spec), hasUnprunedDefaults),
		unknownReviews: spec.Conversion != nil && len(spec.Conversion.ConversionReviewVersions) > 0 && !slices.ContainsFunc(spec.Conversion.ConversionReviewVersions, isReview),
		invalidBundles: hadInvalidBundle(old),
		unchanged:      unchangedSchemas(obj, old),
		selectable:     unchangedSelectable(&obj.Spec, spec),
		rules:          map[string]bool{},
		messages:       map[string]bool{},
	}
	each(spec, func(s *apiextensions.JSONSchemaProps) {
		l.unknownTypes = l.unknownTypes || s.Type != "" && !slices.Contains(dataTypes, s.Type)
		l.granularSets = l.granularSets || granularItem(s) != ""
		l.listKeys = l.listKeys || len(nullableItems(s, nil)) > 0
		for _, r := range s.XValidations {
			l.rules[r.Rule] = true
			if r.MessageExpression != "" {
				l.messages[r.MessageExpression] = true
			}
		}
	})
	return l
}

func allHaveSchemas(spec *apiextensions.CustomResourceDefinitionSpec) bool {
	if spec.Validation != nil && spec.Validation.OpenAPIV3Schema != nil {
		return true
	}
	for i := range spec.Versions {
		if v := &spec.Versions[i]; v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
			return false
		}
	}
	return true
}

func notStructural(s *apiextensions.JSONSchemaProps) bool {
	structural, err := structuralschema.NewStructural(s)
	return err != nil || len(structuralschema.ValidateStructural(nil, structural)) > 0
}

func hasUnprunedDefaults(s *apiextensions.JSONSchemaProps) bool {
	defaults := false
	eachBelow(s, func(s *apiextensions.JSONSchemaProps) { defaults = defaults || s.Default != nil })
	if !defaults || notStructural(s) {
		return false
	}
	structural, err := structuralschema.NewStructural(s)
	if err != nil {
		return false
	}
	pruned := structural.DeepCopy()
	return defaulting.PruneDefaults(pruned) == nil && !reflect.DeepEqual(structural, pruned)
}

// hadInvalidBundle reports whether the authorities of the conversion webhook may be invalid: they
// were before, or the kind is not served yet.
func hadInvalidBundle(old *apiextensions.CustomResourceDefinition) bool {
	if !apiextensions.IsCRDConditionTrue(old, apiextensions.Established) {
		return true
	}
	c := old.Spec.Conversion
	return c != nil && c.WebhookClientConfig != nil && len(c.WebhookClientConfig.CABundle) > 0 &&
		len(clientconfig.ValidateCABundle(c.WebhookClientConfig.CABundle, field.NewPath("caBundle"))) > 0
}

func unchangedSchemas(obj, old *apiextensions.CustomResourceDefinition) map[string]bool {
	unchanged := map[string]bool{}
	for i := range obj.Spec.Versions {
		name := obj.Spec.Versions[i].Name
		now, err := apiextensions.GetSchemaForVersion(obj, name)
		if err != nil {
			continue
		}
		before, err := apiextensions.GetSchemaForVersion(old, name)
		if err == nil && equality.Semantic.DeepEqual(now, before) {
			unchanged[name] = true
		}
	}
	return unchanged
}

// unchangedSelectable returns the versions, "" for all of them, whose selectable fields are too
// many and have not changed.
func unchangedSelectable(spec, old *apiextensions.CustomResourceDefinitionSpec) map[string]bool {
	unchanged := map[string]bool{}
	compare := func(version string, now, before []apiextensions.SelectableField) {
		if len(before) > maxSelectable && equality.Semantic.DeepEqual(now, before) {
			unchanged[version] = true
		}
	}
	compare("", spec.SelectableFields, old.SelectableFields)
	before := map[string][]apiextensions.SelectableField{}
	for i := range old.Versions {
		before[old.Versions[i].Name] = old.Versions[i].SelectableFields
	}
	for i := range spec.Versions {
		compare(spec.Versions[i].Name, spec.Versions[i].SelectableFields, before[spec.Versions[i].Name])
	}
	return unchanged
}
