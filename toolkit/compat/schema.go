package compat

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

type schema = apiextensionsv1.JSONSchemaProps

// A comparison collects the changes of a version.
type comparison struct {
	version string
	found   []Change
}

func (c *comparison) add(path, format string, args ...any) {
	c.found = append(c.found, Change{c.version, path, fmt.Sprintf(format, args...)})
}

// schemas compares two states of a schema.
func (c *comparison) schemas(path string, was, is *schema) {
	if !c.types(path, was, is) {
		return // nothing else can be compared
	}
	c.values(path, was, is)
	c.bounds(path, was, is)
	c.rules(path, was, is)
	c.merging(path, was, is)
	c.fields(path, was, is)
	if was.Items != nil && was.Items.Schema != nil && is.Items != nil && is.Items.Schema != nil {
		c.schemas(path+"[]", was.Items.Schema, is.Items.Schema)
	}
}

// types compares the types, and reports whether what is within them can be compared.
func (c *comparison) types(path string, was, is *schema) bool {
	same := was.Type == is.Type && was.XIntOrString == is.XIntOrString
	switch {
	case same:
		return true
	case is.Type == "" && !is.XIntOrString && preserves(is): // any
		return false
	case is.XIntOrString && (was.Type == "integer" || was.Type == "string"), was.Type == "integer" && is.Type == "number":
		return true
	}
	c.add(path, "the type changes from %s to %s", typeName(was), typeName(is))
	return false
}

func typeName(s *schema) string {
	switch {
	case s.XIntOrString:
		return "integer or string"
	case s.Type == "":
		return "any"
	}
	return s.Type
}

func preserves(s *schema) bool { return s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields }

// values compares which values are allowed, and the default.
func (c *comparison) values(path string, was, is *schema) {
	if was.Nullable && !is.Nullable {
		c.add(path, "it is not nullable any more")
	}
	if len(is.Enum) > 0 {
		switch gone := missing(was.Enum, is.Enum); {
		case len(was.Enum) == 0:
			c.add(path, "an enumeration is new: only %s", list(is.Enum))
		case len(gone) > 0:
			c.add(path, "the enumeration has lost %s", list(gone))
		}
	}
	switch {
	case was.Default != nil && is.Default == nil:
		c.add(path, "the default %s is gone", compact(was.Default.Raw))
	case was.Default != nil && !equal(was.Default.Raw, is.Default.Raw):
		c.add(path, "the default changes from %s to %s", compact(was.Default.Raw), compact(is.Default.Raw))
	}
	if is.Format != "" && is.Format != was.Format {
		c.add(path, "the format %s is new", is.Format)
	}
	if is.Pattern != "" && is.Pattern != was.Pattern {
		if was.Pattern == "" {
			c.add(path, "the pattern %s is new", is.Pattern)
		} else {
			c.add(path, "the pattern changes from %s to %s", was.Pattern, is.Pattern)
		}
	}
	if is.UniqueItems && !was.UniqueItems {
		c.add(path, "items must be unique now")
	}
}

// bounds compares numbers that limit values.
func (c *comparison) bounds(path string, was, is *schema) {
	lower := func(name string, was, is *float64, wasExclusive, isExclusive bool) {
		switch {
		case is == nil:
		case was == nil:
			c.add(path, "%s %s is new", name, number(*is))
		case *is > *was:
			c.add(path, "%s grows from %s to %s", name, number(*was), number(*is))
		case *is == *was && isExclusive && !wasExclusive:
			c.add(path, "%s %s is exclusive now", name, number(*is))
		}
	}
	upper := func(name string, was, is *float64, wasExclusive, isExclusive bool) {
		switch {
		case is == nil:
		case was == nil:
			c.add(path, "%s %s is new", name, number(*is))
		case *is < *was:
			c.add(path, "%s shrinks from %s to %s", name, number(*was), number(*is))
		case *is == *was && isExclusive && !wasExclusive:
			c.add(path, "%s %s is exclusive now", name, number(*is))
		}
	}
	lower("minimum", was.Minimum, is.Minimum, was.ExclusiveMinimum, is.ExclusiveMinimum)
	upper("maximum", was.Maximum, is.Maximum, was.ExclusiveMaximum, is.ExclusiveMaximum)
	for _, b := range []struct {
		name    string
		was, is *int64
	}{{"minLength", was.MinLength, is.MinLength}, {"minItems", was.MinItems, is.MinItems}, {"minProperties", was.MinProperties, is.MinProperties}} {
		if b.is != nil && *b.is > 0 { // 0 is no limit
			lower(b.name, float(b.was), float(b.is), false, false)
		}
	}
	for _, b := range []struct {
		name    string
		was, is *int64
	}{{"maxLength", was.MaxLength, is.MaxLength}, {"maxItems", was.MaxItems, is.MaxItems}, {"maxProperties", was.MaxProperties, is.MaxProperties}} {
		upper(b.name, float(b.was), float(b.is), false, false)
	}
	if is.MultipleOf != nil && (was.MultipleOf == nil || *is.MultipleOf != *was.MultipleOf) {
		c.add(path, "values must be multiples of %s now", number(*is.MultipleOf))
	}
}

// rules compares rules, and alternatives of schemas, of which only equality can be told.
func (c *comparison) rules(path string, was, is *schema) {
	for _, rule := range is.XValidations {
		if !slices.ContainsFunc(was.XValidations, func(r apiextensionsv1.ValidationRule) bool { return r.Rule == rule.Rule }) {
			c.add(path, "the rule %s is new", rule.Rule)
		}
	}
	for _, of := range []struct {
		name    string
		was, is any
		isSet   bool
	}{
		{"allOf", was.AllOf, is.AllOf, len(is.AllOf) > 0}, {"anyOf", was.AnyOf, is.AnyOf, len(is.AnyOf) > 0 && !is.XIntOrString},
		{"oneOf", was.OneOf, is.OneOf, len(is.OneOf) > 0}, {"not", was.Not, is.Not, is.Not != nil},
	} {
		if of.isSet && !reflect.DeepEqual(of.was, of.is) {
			c.add(path, "%s changes", of.name)
		}
	}
}

// merging compares how server-side apply merges lists and objects.
func (c *comparison) merging(path string, was, is *schema) {
	listType := func(s *schema) string { return cmp.Or(text(s.XListType), "atomic") }
	mapType := func(s *schema) string { return cmp.Or(text(s.XMapType), "granular") }
	switch {
	case was.Type == "array" && listType(was) != listType(is):
		c.add(path, "the list type changes from %s to %s", listType(was), listType(is))
	case was.Type == "array" && !slices.Equal(was.XListMapKeys, is.XListMapKeys):
		c.add(path, "the keys of the list change from %v to %v", was.XListMapKeys, is.XListMapKeys)
	case was.Type == "object" && mapType(was) != mapType(is):
		c.add(path, "the map type changes from %s to %s", mapType(was), mapType(is))
	}
}

// fields compares the fields of objects.
func (c *comparison) fields(path string, was, is *schema) {
	if preserves(was) && !preserves(is) {
		c.add(path, "fields that the schema does not have are dropped now")
	}
	for _, name := range slices.Sorted(maps.Keys(was.Properties)) {
		old := was.Properties[name]
		property, ok := is.Properties[name]
		switch at := path + "." + name; {
		case ok:
			c.schemas(at, &old, &property)
		case valuesOf(is) != nil:
			c.schemas(at, &old, valuesOf(is))
		case !preserves(is):
			c.add(at, "the field is gone: objects lose it")
		}
	}
	for _, name := range is.Required {
		if !slices.Contains(was.Required, name) && is.Properties[name].Default == nil {
			c.add(path+"."+name, "the field is required now")
		}
	}
	switch old := valuesOf(was); {
	case old == nil:
	case valuesOf(is) != nil:
		c.schemas(path+".*", old, valuesOf(is))
	case !preserves(is):
		c.add(path, "fields with any name are dropped now")
	}
}

// valuesOf returns the schema of the fields with any name, nil if there is none.
func valuesOf(s *schema) *schema {
	switch of := s.AdditionalProperties; {
	case of == nil:
		return nil
	case of.Schema != nil:
		return of.Schema
	case of.Allows:
		yes := true
		return &schema{XPreserveUnknownFields: &yes}
	}
	return nil
}

func float(n *int64) *float64 {
	if n == nil {
		return nil
	}
	f := float64(*n)
	return &f
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// missing returns the values that another enumeration does not have.
func missing(values, in []apiextensionsv1.JSON) []apiextensionsv1.JSON {
	return slices.DeleteFunc(slices.Clone(values), func(v apiextensionsv1.JSON) bool {
		return slices.ContainsFunc(in, func(other apiextensionsv1.JSON) bool { return equal(v.Raw, other.Raw) })
	})
}

func list(values []apiextensionsv1.JSON) string {
	var b bytes.Buffer
	for i, v := range values {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(compact(v.Raw))
	}
	return b.String()
}

func equal(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

func compact(raw []byte) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}
