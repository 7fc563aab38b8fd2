package schema

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/json"
)

// Compile compiles the OpenAPI v3 schema of one version of a CustomResourceDefinition. With a nil
// schema, or with preserveUnknownFields (spec.preserveUnknownFields of the definition), the program
// prunes nothing.
//
// The schema must have passed the validation of CustomResourceDefinitions. Compile rejects schemas
// that it does not support, and defaults that are not JSON. It keeps no reference to s except to
// its strings.
func Compile(s *apiextensionsv1.JSONSchemaProps, preserveUnknownFields bool) (*Program, error) {
	p := &Program{preserve: preserveUnknownFields || s == nil}
	if s == nil {
		s = &apiextensionsv1.JSONSchemaProps{}
	}
	c := compiler{plain: map[plainNode]*node{}, digest: newDigest()}
	c.digest.flag(p.preserve)
	root, err := c.compile(s)
	if err != nil {
		return nil, fmt.Errorf("compile schema: %w", err)
	}
	p.root = root
	p.fingerprint = c.digest.sum()
	if !p.preserve && c.defaults {
		if err := p.pruneDefaults(root, nil); err != nil {
			return nil, fmt.Errorf("compile schema: %w", err)
		}
	}
	if c.defaults {
		completeDefaults(root)
	}
	if root.conditional {
		completeResources(root)
		p.conditions = sync.OnceValue(func() *conditionTree { return conditionsOf(root) })
	}
	return p, nil
}

// compiler builds nodes, and the fingerprint of the schemas that they come from.
type compiler struct {
	plain    map[plainNode]*node
	digest   *digest
	defaults bool // some node has a default
}

// plainNode identifies the nodes that have a type and nothing else: there are many, and they share
// one node for each type.
type plainNode struct {
	types          typeSet
	nullable, keep bool
}

func (c *compiler) compile(s *apiextensionsv1.JSONSchemaProps) (*node, error) {
	if err := checkSupported(s); err != nil {
		return nil, err
	}
	n := &node{
		types:    typeNamed(s.Type),
		nullable: s.Nullable,
		keep:     s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields,
		embedded: s.XEmbeddedResource,
	}
	if s.XIntOrString {
		n.types = typeInteger | typeString
	}
	c.digest.node(s)
	var r rules
	var err error
	if n.types == typeOther {
		r.typeName = s.Type
	}
	r.format = formatFor(s.Format, n.types)
	r.text = textRulesFor(s)
	r.number = numberRulesFor(s, n.types, r.format)
	r.size = sizeRulesFor(s)
	r.required = slices.Clone(s.Required)
	for i := range s.Enum {
		v, err := parseJSON(&s.Enum[i])
		if err != nil {
			return nil, fmt.Errorf("enum: %w", err)
		}
		r.enum = append(r.enum, v)
	}
	if r.logic, err = c.logic(s); err != nil {
		return nil, err
	}
	r.conditions = conditionsFor(s.XValidations)
	if !r.empty() {
		kept := r
		n.rules = &kept
	}
	n.list = listTypeFor(s)
	if s.Default != nil {
		if n.fallback, err = parseJSON(s.Default); err != nil {
			return nil, fmt.Errorf("default: %w", err)
		}
		c.defaults = c.defaults || n.fallback != nil
	}
	if err := c.children(n, s); err != nil {
		return nil, err
	}
	return c.share(n), nil
}

// children compiles the schemas of properties and items.
func (c *compiler) children(n *node, s *apiextensionsv1.JSONSchemaProps) (err error) {
	c.digest.count(len(s.Properties))
	if len(s.Properties) > 0 {
		n.fields = make([]property, 0, len(s.Properties))
		var prop apiextensionsv1.JSONSchemaProps // reused, because it is large
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			c.digest.text(name)
			prop = s.Properties[name]
			child, err := c.compile(&prop)
			if err != nil {
				return fmt.Errorf("properties[%s]: %w", name, err)
			}
			n.fields = append(n.fields, property{name, child})
		}
	}
	if a := s.AdditionalProperties; a != nil {
		n.extra, n.closed = true, !a.Allows
		c.digest.flag(a.Allows)
		c.digest.flag(a.Schema != nil)
		if a.Schema != nil {
			if n.additional, err = c.compile(a.Schema); err != nil {
				return fmt.Errorf("additionalProperties: %w", err)
			}
		}
	}
	if s.Items != nil && s.Items.Schema != nil {
		if n.items, err = c.compile(s.Items.Schema); err != nil {
			return fmt.Errorf("items: %w", err)
		}
	}
	n.summarise()
	return nil
}

// share returns the shared node for a schema that has nothing but a type.
func (c *compiler) share(n *node) *node {
	if n.fields != nil || n.extra || n.items != nil || n.list != nil || n.rules != nil || n.fallback != nil || n.embedded {
		return n
	}
	key := plainNode{n.types, n.nullable, n.keep}
	if shared := c.plain[key]; shared != nil {
		return shared
	}
	c.plain[key] = n
	return n
}

// checkSupported rejects schemas that no valid CustomResourceDefinition contains.
func checkSupported(s *apiextensionsv1.JSONSchemaProps) error {
	for _, unsupported := range []struct {
		name string
		set  bool
	}{
		{"id", s.ID != ""},
		{"$schema", s.Schema != ""},
		{"$ref", s.Ref != nil && *s.Ref != ""},
		{"patternProperties", len(s.PatternProperties) > 0},
		{"dependencies", len(s.Dependencies) > 0},
		{"additionalItems", s.AdditionalItems != nil},
		{"definitions", len(s.Definitions) > 0},
		{"a list of schemas as items", s.Items != nil && len(s.Items.JSONSchemas) > 0},
		{"x-kubernetes-preserve-unknown-fields: false", s.XPreserveUnknownFields != nil && !*s.XPreserveUnknownFields},
	} {
		if unsupported.set {
			return fmt.Errorf("%s is not supported", unsupported.name)
		}
	}
	return nil
}

func parseJSON(j *apiextensionsv1.JSON) (any, error) {
	if len(j.Raw) == 0 {
		return nil, nil
	}
	var v any
	if err := json.Unmarshal(j.Raw, &v); err != nil {
		return nil, err
	}
	return v, nil
}

func (r *rules) empty() bool {
	return r.typeName == "" && r.format == nil && r.text == nil && r.number == nil && r.size == nil && r.logic == nil &&
		len(r.enum) == 0 && len(r.required) == 0 && len(r.conditions) == 0
}

func sizeRulesFor(s *apiextensionsv1.JSONSchemaProps) *sizeRules {
	if s.MinItems == nil && s.MaxItems == nil && s.MinProperties == nil && s.MaxProperties == nil && !s.UniqueItems {
		return nil
	}
	return &sizeRules{
		minItems: lower(s.MinItems), maxItems: upper(s.MaxItems),
		minProperties: lower(s.MinProperties), maxProperties: upper(s.MaxProperties),
		unique: s.UniqueItems,
	}
}

// lower returns a lower bound of counts; without one, 0.
func lower(bound *int64) int64 {
	if bound == nil {
		return 0
	}
	return *bound
}

// upper returns an upper bound of counts; without one, the largest integer.
func upper(bound *int64) int64 {
	if bound == nil {
		return math.MaxInt64
	}
	return *bound
}
