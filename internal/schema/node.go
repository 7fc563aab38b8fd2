package schema

import "strings"

// node is the compiled form of one schema: of a field, an item, an additional property, or of an
// alternative below allOf, anyOf, oneOf or not. Alternatives are only used for validation; all
// other properties of their nodes are ignored, as in Kubernetes' structural schemas.
type node struct {
	fields     []property // the declared properties, sorted by name
	additional *node      // the schema of properties that are not declared; may be nil although extra is set
	items      *node      // the schema of list items
	list       *listType
	rules      *rules // nil if only the type restricts the value
	resource   *node  // of an embedded resource: its schema as seen by expressions
	fallback   any    // the default, with its own defaults filled in; nil means none

	types    typeSet
	nullable bool
	keep     bool // x-kubernetes-preserve-unknown-fields
	embedded bool // x-kubernetes-embedded-resource
	extra    bool // additionalProperties is given, as a schema or as a boolean
	closed   bool // additionalProperties is false

	// Whether the subtree has such nodes, including this one's list type and embedded resource, but
	// not its own default: walks skip subtrees that they cannot change.
	fills, embeds, keyed bool
	conditional          bool // the subtree has conditions; those of alternatives do not count
}

// property is a declared property.
type property struct {
	name string
	node *node
}

// rules are the validations of a value, grouped by the type of value that they apply to; groups
// without rules are nil.
type rules struct {
	typeName string // the declared type if it is not a JSON type
	format   *format
	text     *textRules
	number   *numberRules
	size     *sizeRules
	logic    *logic
	enum     []any
	required []string

	conditions []condition // evaluated separately, by Evaluate
}

// sizeRules limit the number of items of a list, or of properties of an object.
type sizeRules struct {
	minItems, maxItems           int64
	minProperties, maxProperties int64
	unique                       bool
}

// child returns the schema of a property. If additionalProperties is a boolean, properties that are
// not declared are known, but have no schema.
func (n *node) child(name string) (c *node, known bool) {
	if c := n.field(name); c != nil {
		return c, true
	}
	return n.additional, n.extra
}

// field returns the schema of a declared property, or nil.
func (n *node) field(name string) *node {
	fields := n.fields
	if len(fields) <= 8 {
		for i := range fields {
			if fields[i].name == name {
				return fields[i].node
			}
		}
		return nil
	}
	low, high := 0, len(fields)
	for low < high {
		if middle := (low + high) / 2; fields[middle].name < name {
			low = middle + 1
		} else {
			high = middle
		}
	}
	if low == len(fields) || fields[low].name != name {
		return nil
	}
	return fields[low].node
}

// summarise computes the properties of the subtree of n, from those of its children.
func (n *node) summarise() {
	n.embeds, n.keyed = n.embedded, n.list != nil
	n.conditional = n.rules != nil && len(n.rules.conditions) > 0
	add := func(c *node) {
		if c == nil {
			return
		}
		n.fills = n.fills || c.fills || c.fallback != nil
		n.embeds = n.embeds || c.embeds
		n.keyed = n.keyed || c.keyed
		n.conditional = n.conditional || c.conditional
	}
	for i := range n.fields {
		add(n.fields[i].node)
	}
	add(n.additional)
	add(n.items)
}

// typeSet is a set of JSON types.
type typeSet uint8

const (
	typeObject typeSet = 1 << iota
	typeArray
	typeString
	typeInteger
	typeNumber
	typeBoolean
	typeNull
	typeOther // a name that is not a JSON type, in rules.typeName: no value has it
)

// typeNames lists the types in the order in which a set of several is printed.
func typeNames() []struct {
	set  typeSet
	name string
} {
	return []struct {
		set  typeSet
		name string
	}{
		{typeObject, "object"}, {typeArray, "array"}, {typeInteger, "integer"}, {typeString, "string"},
		{typeNumber, "number"}, {typeBoolean, "boolean"}, {typeNull, "null"},
	}
}

func typeNamed(name string) typeSet {
	if name == "" {
		return 0
	}
	for _, t := range typeNames() {
		if t.name == name {
			return t.set
		}
	}
	return typeOther
}

func (s typeSet) String() string {
	var names []string
	for _, t := range typeNames() {
		if s&t.set != 0 {
			names = append(names, t.name)
		}
	}
	return strings.Join(names, ",")
}

// typeOf returns the type of a value in a JSON tree; none for anything else. A float64 is a number,
// even without a fraction.
func typeOf(v any) typeSet {
	switch v.(type) {
	case map[string]any:
		return typeObject
	case []any:
		return typeArray
	case string:
		return typeString
	case int64:
		return typeInteger
	case float64:
		return typeNumber
	case bool:
		return typeBoolean
	case nil:
		return typeNull
	}
	return 0
}
