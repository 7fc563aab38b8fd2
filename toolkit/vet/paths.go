package vet

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/toolkit/generate"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/jsonpath"
)

// unreachable returns a problem for each path of a column or of the scale subresource that leads to
// no field of the schema, or to one of a type that cannot be shown or counted. A server accepts
// such a path; the column is empty, and scaling fails.
func (l *locator) unreachable(definition *apiextensionsv1.CustomResourceDefinition) []generate.Problem {
	var problems []generate.Problem
	for i, version := range definition.Spec.Versions {
		if version.Schema == nil || version.Schema.OpenAPIV3Schema == nil {
			continue
		}
		at := fmt.Sprintf("spec.versions[%d].", i)
		check := func(part, path, typ string) {
			if fault := faultOf(version.Schema.OpenAPIV3Schema, path, typ); fault != "" {
				problems = append(problems, l.problem(definition.Name, at+part, fmt.Sprintf("path %s: %s", path, fault)))
			}
		}
		for j, column := range version.AdditionalPrinterColumns {
			check(fmt.Sprintf("additionalPrinterColumns[%d]", j), column.JSONPath, column.Type)
		}
		if version.Subresources == nil || version.Subresources.Scale == nil {
			continue
		}
		scale := version.Subresources.Scale
		check("subresources.scale", scale.SpecReplicasPath, "integer")
		check("subresources.scale", scale.StatusReplicasPath, "integer")
		if scale.LabelSelectorPath != nil {
			check("subresources.scale", *scale.LabelSelectorPath, "selector")
		}
	}
	return problems
}

// faultOf returns what is wrong with a path for a value of a type, which is that of a column or
// "selector" for a string that no other type is shown as. It returns "" if nothing is, or if the
// schema does not tell.
func faultOf(schema *apiextensionsv1.JSONSchemaProps, path, typ string) string {
	parsed, err := jsonpath.Parse("", "{"+path+"}")
	if err != nil { // a server leaves out this column, and all after it
		return fmt.Sprintf("it cannot be parsed: %v", err)
	}
	if len(parsed.Root.Nodes) != 1 {
		return ""
	}
	list, ok := parsed.Root.Nodes[0].(*jsonpath.ListNode)
	if !ok {
		return ""
	}
	found, fault := follow(withMetadata(schema), list.Nodes)
	if fault != "" || found == nil || found.Type == "" {
		return fault
	}
	if shown := showsAs(typ); len(shown) > 0 && !slices.Contains(shown, found.Type) {
		if typ == "date" {
			return fmt.Sprintf("the type of the field is %s, but a date is a string", found.Type)
		}
		return fmt.Sprintf("the type of the field is %s, not %s", found.Type, shown[0])
	}
	return ""
}

// showsAs returns the types of fields that have a value as a type of a column. Columns of strings
// show all.
func showsAs(column string) []string {
	switch column {
	case "integer":
		return []string{"integer", "number"}
	case "number":
		return []string{"number", "integer"}
	case "boolean":
		return []string{"boolean"}
	case "date", "selector":
		return []string{"string"}
	}
	return nil
}

// follow returns the schema that the parts of a path lead to, nil if the schema does not tell, or
// why they lead to none.
func follow(schema *apiextensionsv1.JSONSchemaProps, path []jsonpath.Node) (_ *apiextensionsv1.JSONSchemaProps, fault string) {
	for _, node := range path {
		if schema == nil || schema.XPreserveUnknownFields != nil && *schema.XPreserveUnknownFields || schema.XEmbeddedResource || schema.Type == "" {
			return nil, ""
		}
		switch node := node.(type) {
		case *jsonpath.FieldNode:
			if node.Value == "" { // the dot at the end of a path
				continue
			}
			property, known := schema.Properties[node.Value]
			switch {
			case known:
				schema = &property
			case schema.AdditionalProperties != nil:
				schema = schema.AdditionalProperties.Schema
			case schema.Type == "array":
				return nil, fmt.Sprintf("%s is not a field of a list: select an item, as with [0]", node.Value)
			default:
				return nil, fmt.Sprintf("there is no field %s%s", node.Value, near(node.Value, schema))
			}
		case *jsonpath.ArrayNode, *jsonpath.FilterNode:
			if schema.Type != "array" || schema.Items == nil {
				return nil, fmt.Sprintf("a field of the type %s has no items", schema.Type)
			}
			schema = schema.Items.Schema
			if filter, ok := node.(*jsonpath.FilterNode); ok {
				if _, fault := follow(schema, filter.Left.Nodes); fault != "" {
					return nil, fault
				}
			}
		default:
			return nil, ""
		}
	}
	return schema, ""
}

// near suggests a field that differs in upper and lower case only.
func near(name string, schema *apiextensionsv1.JSONSchemaProps) string {
	for _, known := range slices.Sorted(maps.Keys(schema.Properties)) {
		if strings.EqualFold(known, name) {
			return fmt.Sprintf(" (did you mean %s?)", known)
		}
	}
	return ""
}

// withMetadata returns the schema of an object with the fields that each object has.
func withMetadata(schema *apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	all := *schema
	all.Properties = maps.Clone(schema.Properties)
	metadata := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{}}
	of := reflect.TypeFor[metav1.ObjectMeta]()
	for i := range of.NumField() {
		name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
		metadata.Properties[name] = apiextensionsv1.JSONSchemaProps{}
	}
	if all.Properties == nil {
		all.Properties = map[string]apiextensionsv1.JSONSchemaProps{}
	}
	all.Properties["metadata"] = metadata
	return &all
}
