package importcrd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kapok-dev/kapok/toolkit/generate"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

func itoa[N int | int64](n N) string { return strconv.FormatInt(int64(n), 10) }

// validationMarkers returns the markers for what a schema has besides its type, in a fixed order:
// bounds, pattern, format, enumeration, rules, and in a marker of Kapok what no other can say, such
// as a bound that has no meaning for the type. All of them can stand on a field or a type.
func validationMarkers(s *apiextensionsv1.JSONSchemaProps) []string {
	var all []string
	add := func(name, value string) { all = append(all, "kubebuilder:validation:"+name+"="+value) }
	rest := apiextensionsv1.JSONSchemaProps{AllOf: s.AllOf, AnyOf: s.AnyOf, OneOf: s.OneOf, Not: s.Not}
	for _, bound := range []struct {
		name string
		is   *float64
		rest **float64
	}{{"Minimum", s.Minimum, &rest.Minimum}, {"Maximum", s.Maximum, &rest.Maximum}, {"MultipleOf", s.MultipleOf, &rest.MultipleOf}} {
		switch {
		case bound.is == nil:
		case s.Type == "number" || s.Type == "integer" && *bound.is == math.Trunc(*bound.is):
			add(bound.name, strconv.FormatFloat(*bound.is, 'f', -1, 64))
		default:
			*bound.rest = bound.is
		}
	}
	isNumber := s.Type == "integer" || s.Type == "number"
	if rest.ExclusiveMinimum = s.ExclusiveMinimum; isNumber && s.ExclusiveMinimum {
		add("ExclusiveMinimum", "true")
		rest.ExclusiveMinimum = false
	}
	if rest.ExclusiveMaximum = s.ExclusiveMaximum; isNumber && s.ExclusiveMaximum {
		add("ExclusiveMaximum", "true")
		rest.ExclusiveMaximum = false
	}
	isText := s.Type == "string" || s.XIntOrString
	isList, isObject := s.Type == "array", s.Type == "object"
	for _, bound := range []struct {
		name     string
		is       *int64
		rest     **int64
		ofItsOwn bool // the schema has the type for which the marker is
	}{
		{"MinLength", s.MinLength, &rest.MinLength, isText}, {"MaxLength", s.MaxLength, &rest.MaxLength, isText},
		{"MinItems", s.MinItems, &rest.MinItems, isList}, {"MaxItems", s.MaxItems, &rest.MaxItems, isList},
		{"MinProperties", s.MinProperties, &rest.MinProperties, isObject},
		{"MaxProperties", s.MaxProperties, &rest.MaxProperties, isObject},
	} {
		switch {
		case bound.is == nil:
		case bound.ofItsOwn:
			add(bound.name, itoa(*bound.is))
		default:
			*bound.rest = bound.is
		}
	}
	if rest.UniqueItems = s.UniqueItems; isList && s.UniqueItems {
		add("UniqueItems", "true")
		rest.UniqueItems = false
	}
	if rest.Pattern = s.Pattern; isText && s.Pattern != "" {
		add("Pattern", quote(s.Pattern))
		rest.Pattern = ""
	}
	if s.Format != "" {
		add("Format", quoteUnlessPlain(s.Format))
	}
	if len(s.Enum) > 0 {
		if values, ok := enumeration(s.Enum); ok {
			add("Enum", values)
		} else {
			rest.Enum = s.Enum
		}
	}
	for _, rule := range s.XValidations {
		all = append(all, "kubebuilder:validation:XValidation:"+ruleArguments(rule))
	}
	return append(all, schemaMarker(&rest)...)
}

// schemaMarker returns the marker that sets parts of a schema, if there are any.
func schemaMarker(part *apiextensionsv1.JSONSchemaProps) []string {
	text, err := json.Marshal(part)
	if err != nil || string(text) == "{}" {
		return nil
	}
	return []string{generate.SchemaMarker + "=" + stableJSON(text)}
}

func ruleArguments(rule apiextensionsv1.ValidationRule) string {
	args := []string{"rule=" + quote(rule.Rule)}
	if rule.Message != "" {
		args = append(args, "message="+quote(rule.Message))
	}
	if rule.MessageExpression != "" {
		args = append(args, "messageExpression="+quote(rule.MessageExpression))
	}
	if rule.Reason != nil {
		args = append(args, "reason="+quote(string(*rule.Reason)))
	}
	if rule.FieldPath != "" {
		args = append(args, "fieldPath="+quote(rule.FieldPath))
	}
	if rule.OptionalOldSelf != nil {
		args = append(args, "optionalOldSelf="+strconv.FormatBool(*rule.OptionalOldSelf))
	}
	return strings.Join(args, ",")
}

// topologyMarkers returns the markers for the merging of a list or an object by server-side apply.
func topologyMarkers(s *apiextensionsv1.JSONSchemaProps, object string) []string {
	var all []string
	if s.XListType != nil {
		all = append(all, "listType="+*s.XListType)
	}
	for _, key := range s.XListMapKeys {
		all = append(all, "listMapKey="+quoteUnlessPlain(key))
	}
	if s.XMapType != nil {
		all = append(all, object+"="+*s.XMapType)
	}
	return all
}

// fieldMarkers returns the markers that only a field can have.
func fieldMarkers(s *apiextensionsv1.JSONSchemaProps, required bool) []string {
	var all []string
	if !required {
		all = append(all, "optional")
	}
	if s.Nullable {
		all = append(all, "nullable")
	}
	var rest apiextensionsv1.JSONSchemaProps
	if s.Default != nil {
		var text bytes.Buffer
		if json.Compact(&text, s.Default.Raw) == nil && text.String() != "null" {
			all = append(all, "default="+stableJSON(text.Bytes()))
		} else {
			rest.Default = s.Default
		}
	}
	if s.Example != nil {
		if text, ok := literal(s.Example.Raw); ok {
			all = append(all, "kubebuilder:example="+text)
		} else {
			rest.Example = s.Example
		}
	}
	return append(all, schemaMarker(&rest)...)
}

// titleMarkers returns the markers for the documentation of a field or type other than its comment.
func titleMarkers(s *apiextensionsv1.JSONSchemaProps) []string {
	var all []string
	if s.Title != "" {
		all = append(all, "kubebuilder:title="+quote(s.Title))
	}
	if d := s.ExternalDocs; d != nil && d.URL != "" {
		text := "kubebuilder:externalDocs:url=" + quote(d.URL)
		if d.Description != "" {
			text += ",description=" + quote(d.Description)
		}
		all = append(all, text)
	}
	return all
}

// quote returns a string as the text of a marker: raw if it can be, for patterns and rules are full
// of backslashes. gofmt turns two quotation marks in a row into another one, so these are escaped.
func quote(s string) string {
	if strings.Contains(s, "''") || strings.Contains(s, "``") {
		return strings.NewReplacer("''", `\x27\x27`, "``", `\x60\x60`).Replace(strconv.Quote(s))
	}
	if strings.ContainsAny(s, "\"\\") && strconv.CanBackquote(s) {
		return "`" + s + "`"
	}
	return strconv.Quote(s)
}

// stableJSON returns JSON that gofmt does not change, see quote.
func stableJSON(text []byte) string {
	return strings.NewReplacer("''", `\u0027\u0027`, "``", `\u0060\u0060`, "\ufeff", `\ufeff`).Replace(string(text))
}

// quoteUnlessPlain returns a string as the text of a marker, without quotes if it is a word.
func quoteUnlessPlain(s string) string {
	for _, r := range s {
		if !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || r == '-') {
			return quote(s)
		}
	}
	return s
}

// enumeration returns the values of an enumeration as the text of a marker. It cannot have null.
func enumeration(values []apiextensionsv1.JSON) (text string, ok bool) {
	texts := make([]string, len(values))
	for i, v := range values {
		if texts[i], ok = literal(v.Raw); !ok || strings.HasPrefix(texts[i], "{") {
			return "", false
		}
	}
	return "{" + strings.Join(texts, ",") + "}", true
}

// literal returns a JSON value as the text of a marker. Not all can be written: null and empty
// lists have no text, and lists of objects or lists are not read.
func literal(raw []byte) (text string, ok bool) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return "", false
	}
	return literalOf(value)
}

func literalOf(value any) (text string, ok bool) {
	switch v := value.(type) {
	case string:
		return quote(v), true
	case bool:
		return strconv.FormatBool(v), true
	case json.Number:
		return v.String(), !strings.ContainsAny(v.String(), "eE")
	case map[string]any:
		var all []string
		for _, key := range slices.Sorted(maps.Keys(v)) {
			text, ok := literalOf(v[key])
			if !ok {
				return "", false
			}
			all = append(all, strconv.Quote(key)+": "+text)
		}
		return "{" + strings.Join(all, ", ") + "}", true
	case []any:
		var all []string
		for _, item := range v {
			text, ok := literalOf(item)
			if !ok || fmt.Sprintf("%T", item) != fmt.Sprintf("%T", v[0]) || strings.HasPrefix(text, "{") {
				return "", false
			}
			all = append(all, text)
		}
		return "{" + strings.Join(all, ", ") + "}", len(all) > 0
	}
	return "", false
}
