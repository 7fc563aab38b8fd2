package schema

import (
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// declare returns the type of values of schema n in expressions; nil if expressions cannot access
// them, which is the case for values without a type, and for lists and maps of these. Types have no
// sizes: these only matter for the estimated cost of expressions, which is checked before a
// CustomResourceDefinition is accepted.
func declare(n *node) *apiservercel.DeclType {
	if n == nil {
		return nil
	}
	if n.intOrString() {
		return apiservercel.DynType
	}
	if n.resource != nil {
		n = n.resource
	}
	switch n.types {
	case typeArray:
		if items := declare(n.items); items != nil {
			return apiservercel.NewListType(items, 0)
		}
	case typeObject:
		return declareObject(n)
	case typeString:
		return declareString(n)
	case typeBoolean:
		return apiservercel.BoolType
	case typeNumber:
		return apiservercel.DoubleType
	case typeInteger:
		return apiservercel.IntType
	}
	return nil
}

func declareObject(n *node) *apiservercel.DeclType {
	if n.additional != nil {
		if values := declare(n.additional); values != nil {
			return apiservercel.NewMapType(apiservercel.StringType, values, 0)
		}
		return nil
	}
	fields := make(map[string]*apiservercel.DeclField, len(n.fields))
	for _, f := range n.fields {
		name, ok := apiservercel.Escape(f.name)
		if !ok {
			continue
		}
		if t := declare(f.node); t != nil {
			fields[name] = apiservercel.NewDeclField(name, t, false, nil, nil)
		}
	}
	return apiservercel.NewObjectType("object", fields)
}

func declareString(n *node) *apiservercel.DeclType {
	switch n.formatName() {
	case "byte":
		return apiservercel.BytesType
	case "duration":
		return apiservercel.DurationType
	case "date", "date-time":
		return apiservercel.NewSimpleTypeWithMinSize("timestamp", cel.TimestampType, apiservercel.TimestampType.DefaultValue(), 0)
	}
	return apiservercel.StringType
}

// declared reports whether declare would return a type.
func declared(n *node) bool {
	switch {
	case n == nil:
		return false
	case n.intOrString():
		return true
	case n.types == typeArray:
		return declared(n.items)
	case n.types == typeObject:
		return n.additional == nil || declared(n.additional)
	}
	return n.types == typeString || n.types == typeBoolean || n.types == typeNumber || n.types == typeInteger
}

func (n *node) intOrString() bool { return n.types == typeInteger|typeString }

func (n *node) formatName() string {
	if n.rules == nil || n.rules.format == nil {
		return ""
	}
	return n.rules.format.name
}

// asResource returns the schema of a resource, the root or an embedded one, in expressions. It
// always has apiVersion, kind, metadata.name and metadata.generateName, and no other metadata,
// unless n itself declares all these.
func asResource(n *node) *node {
	text := func(n *node) bool { return n != nil && n.types == typeString }
	meta := n.field("metadata")
	if text(n.field("apiVersion")) && text(n.field("kind")) && meta != nil && meta.types == typeObject &&
		text(meta.field("name")) && text(meta.field("generateName")) {
		return n
	}
	plain := &node{types: typeString}
	whole := *n
	whole.resource, whole.items = nil, nil
	whole.fields = slices.DeleteFunc(slices.Clone(n.fields), func(p property) bool { return isMeta(p.name) })
	whole.fields = append(whole.fields, property{"apiVersion", plain}, property{"kind", plain}, property{"metadata", &node{
		types:  typeObject,
		fields: []property{{"generateName", plain}, {"name", plain}},
	}})
	slices.SortFunc(whole.fields, func(a, b property) int { return strings.Compare(a.name, b.name) })
	return &whole
}

// completeResources sets the schemas in expressions of the embedded resources in the subtree of n.
func completeResources(n *node) {
	if n == nil || !n.embeds {
		return
	}
	if n.embedded && n.resource == nil {
		n.resource = asResource(n)
	}
	for i := range n.fields {
		completeResources(n.fields[i].node)
	}
	completeResources(n.additional)
	completeResources(n.items)
}
