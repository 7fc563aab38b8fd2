package validation

import (
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	apiservervalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// dataTypes are the types of OpenAPI v3.
var dataTypes = []string{"array", "boolean", "integer", "number", "object", "string"}

// schema returns the errors of the schema of a version. hasStatus says that the version has a
// status subresource.
func (v *validator) schema(c *apiextensions.CustomResourceValidation, hasStatus bool, version string, at *field.Path) (errs field.ErrorList) {
	if c == nil {
		return nil
	}
	if s := c.OpenAPIV3Schema; s != nil {
		at := at.Child("openAPIV3Schema")
		if hasStatus {
			errs = append(errs, rootWithStatus(s, at)...)
		}
		if s.Nullable {
			errs = append(errs, field.Forbidden(at.Child("nullable"), "nullable cannot be true at the root"))
		}
		w := walk{validator: v, anyCost: v.leniency.unchanged[version]}
		p := place{at: at, root: true}
		var notStructural *field.Error
		if v.structural {
			structural, err := structuralschema.NewStructural(s)
			if err != nil {
				notStructural = field.Invalid(at, "", err.Error())
			} else if found := v.structuralErrors(structural, at); len(found) > 0 {
				errs = append(errs, found...)
			} else if v.content.rules {
				p.rules = rootOf(s, structural)
			}
		}
		w.visit(s, p)
		errs = append(append(errs, w.errs...), w.ruleErrs...)
		if len(errs) == 0 && notStructural != nil { // it repeats other errors
			errs = append(errs, notStructural)
		}
		errs = append(errs, w.cost.errors(at)...)
	}
	if len(errs) == 0 && v.ctx.Err() == nil {
		if _, _, err := apiservervalidation.NewSchemaValidator(c.OpenAPIV3Schema); err != nil {
			errs = append(errs, field.Invalid(at, "", fmt.Sprintf("error building validator: %v", err)))
		}
	}
	return errs
}

// structuralErrors returns the errors of a structural schema and of its defaults.
func (v *validator) structuralErrors(s *structuralschema.Structural, at *field.Path) field.ErrorList {
	if errs := structuralschema.ValidateStructural(at, s); len(errs) > 0 || !v.content.defaults {
		return errs
	}
	errs, err := defaulting.ValidateDefaults(v.ctx, at, s, true, !v.leniency.unpruned)
	if err != nil {
		return field.ErrorList{field.Invalid(at, "", err.Error())}
	}
	return errs
}

// atRoot are the fields of a schema that are allowed at its root beside a status subresource, as in
// the message of Kubernetes. With others, the schema of the status alone would not be equivalent.
var atRoot = []string{
	"Description", "Type", "Format", "Title", "Maximum", "ExclusiveMaximum", "Minimum", "ExclusiveMinimum", "MaxLength", "MinLength", "Pattern",
	"MaxItems", "MinItems", "UniqueItems", "MultipleOf", "Required", "Items", "Properties", "ExternalDocs", "Example", "XPreserveUnknownFields",
	"XValidations",
}

func rootWithStatus(s *apiextensions.JSONSchemaProps, at *field.Path) field.ErrorList {
	value := reflect.ValueOf(s).Elem()
	for i := range value.NumField() {
		name := value.Type().Field(i).Name
		switch {
		case value.Field(i).IsZero():
		case name == "Type" && s.Type != "object":
			return field.ErrorList{field.Invalid(at.Child("type"), s.Type, `only "object" is allowed as the type at the root of the schema if the status subresource is enabled`)}
		case !slices.Contains(atRoot, name):
			return field.ErrorList{field.Invalid(at, *s, fmt.Sprintf("only %v fields are allowed at the root of the schema if the status subresource is enabled", atRoot))}
		}
	}
	return nil
}

// A walk visits a schema and all below it.
type walk struct {
	*validator
	anyCost bool // rules may be as expensive as before

	errs     field.ErrorList // of the schemas
	ruleErrs field.ErrorList // of rules, which follow those of the schemas
	cost     totalCost
}

// A place is what holds for a schema because of the schemas above it.
type place struct {
	at   *field.Path
	root bool
	// noDefault is why a default is forbidden; "" if it is not.
	noDefault string
	// inMeta says that the schema is of the metadata, kind or apiVersion of an object.
	inMeta bool
	// uncorrelated is the topmost list or map whose items have no counterparts in an old object; nil
	// if there is none.
	uncorrelated *field.Path
	// rules is what rules know of the schema; nil if rules are not compiled.
	rules *ruleScope
}

// below returns the place of a schema in which rules are not compiled.
func (p place) below(at *field.Path) place {
	p.at, p.root, p.rules = at, false, nil
	return p
}

func (p place) within(rules *ruleScope) place {
	p.rules = rules
	return p
}

// uncorrelate returns a place below a list or map without correlation.
func (p place) uncorrelate(at *field.Path) place {
	if p.uncorrelated == nil {
		p.uncorrelated = at
	}
	return p
}

func (w *walk) add(errs ...*field.Error) { w.errs = append(w.errs, errs...) }

// visit checks a schema, which is nil for none.
func (w *walk) visit(s *apiextensions.JSONSchemaProps, p place) {
	if s == nil || w.ctx.Err() != nil {
		return
	}
	before := len(w.errs)
	w.supported(s, p)
	w.children(s, p)
	if s.XPreserveUnknownFields != nil && !*s.XPreserveUnknownFields {
		w.add(field.Invalid(p.at.Child("x-kubernetes-preserve-unknown-fields"), false, "must be true or undefined"))
	}
	w.mapType(s, p.at)
	w.listType(s, p.at)
	if !w.leniency.listKeys {
		w.add(nullableItems(s, p.at)...)
	}
	if len(s.XValidations) > 0 {
		w.ruleFields(s, p.at)
		// Rules need the types of a valid schema.
		if len(w.errs) == before && p.rules != nil {
			w.rules(s, p)
		}
	}
}

// supported checks that a schema has no fields that Kubernetes does not support.
func (w *walk) supported(s *apiextensions.JSONSchemaProps, p place) {
	forbid := func(forbidden bool, name, text string) {
		if forbidden {
			w.add(field.Forbidden(p.at.Child(name), text))
		}
	}
	if !w.leniency.unknownTypes && s.Type != "" && !slices.Contains(dataTypes, s.Type) {
		w.add(field.NotSupported(p.at.Child("type"), s.Type, dataTypes))
	}
	forbid(s.Default != nil && p.noDefault != "", "default", "must not be set "+p.noDefault)
	forbid(s.ID != "", "id", "id is not supported")
	forbid(s.AdditionalItems != nil, "additionalItems", "additionalItems is not supported")
	forbid(len(s.PatternProperties) > 0, "patternProperties", "patternProperties is not supported")
	forbid(len(s.Definitions) > 0, "definitions", "definitions is not supported")
	forbid(s.Dependencies != nil, "dependencies", "dependencies is not supported")
	forbid(s.Ref != nil, "$ref", "$ref is not supported")
	forbid(s.Type == "null", "type", "type cannot be set to null, use nullable as an alternative")
	forbid(s.Items != nil && len(s.Items.JSONSchemas) > 0, "items", "items must be a schema object and not an array")
	forbid(p.inMeta && s.XEmbeddedResource, "x-kubernetes-embedded-resource", "must not be used inside of resource meta")
	forbid(s.UniqueItems, "uniqueItems", "uniqueItems cannot be set to true since the runtime complexity becomes quadratic")
}

// children visits the schemas directly below one.
func (w *walk) children(s *apiextensions.JSONSchemaProps, p place) {
	if a := s.AdditionalProperties; a != nil {
		if len(s.Properties) > 0 && (!a.Allows || a.Schema != nil) {
			w.add(field.Forbidden(p.at.Child("additionalProperties"), "additionalProperties and properties are mutual exclusive"))
		}
		below := p.below(p.at.Child("additionalProperties")).within(p.rules.values(a.Schema))
		if p.inMeta {
			below.noDefault = "inside additionalProperties applying to object metadata"
		}
		w.visit(a.Schema, below)
	}
	for _, name := range sortedNames(s.Properties) {
		property := s.Properties[name]
		below := p.below(p.at.Child("properties").Key(name)).within(p.rules.property(&property, name))
		if !cel.MapIsCorrelatable(s.XMapType) {
			below = below.uncorrelate(p.at)
		}
		if (p.root || s.XEmbeddedResource) && (name == "metadata" || name == "kind" || name == "apiVersion") {
			below.inMeta = true
			if p.root {
				below.noDefault = "in top-level " + name
			}
		}
		w.visit(&property, below)
	}
	w.visit(s.Not, p.below(p.at.Child("not")))
	for _, of := range []struct {
		name    string
		schemas []apiextensions.JSONSchemaProps
	}{{"allOf", s.AllOf}, {"oneOf", s.OneOf}, {"anyOf", s.AnyOf}} {
		for i := range of.schemas {
			w.visit(&of.schemas[i], p.below(p.at.Child(of.name).Index(i)))
		}
	}
	for _, name := range sortedNames(s.Definitions) {
		definition := s.Definitions[name]
		w.visit(&definition, p.below(p.at.Child("definitions").Key(name)))
	}
	if s.Items != nil {
		below := p
		if s.XListType == nil || *s.XListType != "map" {
			below = below.uncorrelate(p.at)
		}
		w.visit(s.Items.Schema, below.below(p.at.Child("items")).within(p.rules.items(s.Items.Schema)))
		for i := range s.Items.JSONSchemas {
			item := &s.Items.JSONSchemas[i]
			w.visit(item, below.below(p.at.Child("items").Index(i)).within(p.rules.items(item)))
		}
	}
	for _, name := range sortedNames(s.Dependencies) {
		w.visit(s.Dependencies[name].Schema, p.below(p.at.Child("dependencies").Key(name)))
	}
}

func (w *walk) mapType(s *apiextensions.JSONSchemaProps, at *field.Path) {
	if s.XMapType == nil {
		return
	}
	w.typeIs("object", "x-kubernetes-map-type", s, at)
	if t := *s.XMapType; t != "atomic" && t != "granular" {
		w.add(field.NotSupported(at.Child("x-kubernetes-map-type"), t, []string{"atomic", "granular"}))
	}
}

// typeIs checks the type that an extension requires.
func (w *walk) typeIs(want, extension string, s *apiextensions.JSONSchemaProps, at *field.Path) bool {
	text := "must be " + want + " if " + extension + " is specified"
	switch s.Type {
	case want:
		return true
	case "":
		w.add(field.Required(at.Child("type"), text))
	default:
		w.add(field.Invalid(at.Child("type"), s.Type, text))
	}
	return false
}

func (w *walk) listType(s *apiextensions.JSONSchemaProps, at *field.Path) {
	listType, keys := at.Child("x-kubernetes-list-type"), len(s.XListMapKeys) > 0
	if s.XListType == nil {
		if keys {
			w.add(field.Required(listType, "must be map if x-kubernetes-list-map-keys is non-empty"))
		}
		return
	}
	t := *s.XListType
	if w.typeIs("array", "x-kubernetes-list-type", s, at) && !w.leniency.granularSets {
		if name := granularItem(s); name != "" {
			// Kubernetes reports the type of the list, also for maps.
			w.add(field.Invalid(at.Child("items").Child(name), s.Items.Schema.XListType, "must be atomic as item of a list with x-kubernetes-list-type=set"))
		}
	}
	if t != "atomic" && t != "set" && t != "map" {
		w.add(field.NotSupported(listType, t, []string{"atomic", "set", "map"}))
	}
	if keys && t != "map" {
		w.add(field.Invalid(listType, t, "must be map if x-kubernetes-list-map-keys is non-empty"))
	}
	if t == "map" {
		w.mapKeys(s, at)
	}
}

// granularItem returns the extension by which the items of a set are not atomic; "" if they are.
func granularItem(s *apiextensions.JSONSchemaProps) string {
	if s.XListType == nil || *s.XListType != "set" || s.Items == nil || s.Items.Schema == nil {
		return ""
	}
	switch item := s.Items.Schema; {
	case item.Type == "array" && item.XListType != nil && *item.XListType != "atomic": // lists are atomic by default
		return "x-kubernetes-list-type"
	case item.Type == "object" && (item.XMapType == nil || *item.XMapType != "atomic"): // maps are not
		return "x-kubernetes-map-type"
	}
	return ""
}

// mapKeys checks the keys of a list of type map.
func (w *walk) mapKeys(s *apiextensions.JSONSchemaProps, at *field.Path) {
	keys := at.Child("x-kubernetes-list-map-keys")
	if len(s.XListMapKeys) == 0 {
		w.add(field.Required(keys, "must not be empty if x-kubernetes-list-type is map"))
	}
	items := at.Child("items")
	switch {
	case s.Items == nil:
		w.add(field.Required(items, "must have a schema if x-kubernetes-list-type is map"))
		return
	case s.Items.Schema == nil:
		w.add(field.Invalid(items, s.Items, "must only have a single schema if x-kubernetes-list-type is map"))
		return
	case s.Items.Schema.Type != "object":
		w.add(field.Invalid(items.Child("type"), s.Items.Schema.Type, "must be object if parent array's x-kubernetes-list-type is map"))
		return
	}
	seen := map[string]bool{}
	for _, name := range s.XListMapKeys {
		key, ok := s.Items.Schema.Properties[name]
		switch {
		case !ok:
			w.add(field.Invalid(keys, s.XListMapKeys, "entries must all be names of item properties"))
		case key.Type == "array" || key.Type == "object":
			// The value is the type of the items, as in Kubernetes.
			w.add(field.Invalid(items.Child("properties").Key(name).Child("type"), s.Items.Schema.Type, "must be a scalar type if parent array's x-kubernetes-list-type is map"))
		}
		if seen[name] {
			w.add(field.Invalid(keys, s.XListMapKeys, "must not contain duplicate entries"))
		}
		seen[name] = true
	}
}

// nullableItems returns errors for items of sets and maps that may be absent or null, or whose keys
// may be.
func nullableItems(s *apiextensions.JSONSchemaProps, at *field.Path) (errs field.ErrorList) {
	if s.Items == nil || s.Items.Schema == nil || s.XListType == nil || *s.XListType != "set" && *s.XListType != "map" {
		return nil
	}
	item := s.Items.Schema
	if item.Nullable {
		errs = append(errs, field.Forbidden(at.Child("items", "nullable"), "cannot be nullable when x-kubernetes-list-type is "+*s.XListType))
	}
	if *s.XListType == "set" {
		return errs
	}
	for _, name := range s.XListMapKeys {
		key, ok := item.Properties[name]
		if !ok {
			continue
		}
		at := at.Child("items", "properties").Key(name)
		if key.Default == nil && !slices.Contains(item.Required, name) {
			errs = append(errs, field.Required(at.Child("default"), "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"))
		}
		if key.Nullable {
			errs = append(errs, field.Forbidden(at.Child("nullable"), "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"))
		}
	}
	return errs
}
