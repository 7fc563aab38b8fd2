package openapi

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	kindsopenapi "github.com/kapok-dev/kapok/internal/kinds/openapi"
)

const (
	keyKinds            = "x-kubernetes-group-version-kind"
	keySelectableFields = "x-kubernetes-selectable-fields"
)

// metaTexts are the descriptions that every custom kind shares with built-in kinds.
var metaTexts = sync.OnceValue(func() (texts struct{ apiVersion, kind, metadata, listMetadata string }) {
	describe := func(definition, property string) string {
		s, ok := kindsopenapi.Builtin().Get(metaV1 + definition)
		if !ok {
			return ""
		}
		return s.Properties[property].Description
	}
	texts.apiVersion = describe("TypeMeta", "apiVersion")
	texts.kind = describe("TypeMeta", "kind")
	texts.metadata = describe("PartialObjectMetadata", "metadata")
	texts.listMetadata = describe("PartialObjectMetadataList", "metadata")
	return texts
})

// customDefinitions returns the definitions of a custom kind and of its list.
func (r *Resource) customDefinitions(d dialect) (map[string][]byte, error) {
	definitions := map[string][]byte{}
	for kind, s := range map[string]object{r.Kind: r.customObject(d), r.ListKind: r.customList(d)} {
		s[keyKinds] = []any{object{"group": r.Group, "kind": kind, "version": r.Version}}
		if len(r.Custom.SelectableFields) > 0 {
			fields := []any{}
			for _, path := range r.Custom.SelectableFields {
				fields = append(fields, object{"fieldPath": strings.TrimPrefix(path, ".")})
			}
			s[keySelectableFields] = fields
		}
		raw, err := encode(s)
		if err != nil {
			return nil, fmt.Errorf("schema of %s in %s: %w", kind, r.root(), err)
		}
		definitions[r.definition(kind)] = raw
	}
	return definitions, nil
}

// decodeSchema decodes the schema of a custom kind. It treats an invalid schema as absent: the CRD
// was validated when it was accepted, and one kind must not make the documents of all others fail.
func (r *Resource) decodeSchema() object {
	if r.Custom.Schema == nil {
		return nil
	}
	raw, err := r.Custom.Schema()
	if err != nil {
		return nil
	}
	s, err := decodeObject(raw)
	if err != nil {
		return nil
	}
	return s
}

func (r *Resource) customObject(d dialect) object {
	s := r.decodeSchema()
	if s == nil || d.two && (isTrue(s, "x-kubernetes-preserve-unknown-fields") || r.Custom.PreserveUnknownFields) {
		// With any properties, even metadata alone, kubectl would reject all others.
		return object{"type": "object"}
	}
	if d.two {
		simplify(s)
	} else {
		unfold(s)
	}
	properties := propertiesOf(s)
	properties["metadata"] = d.reference(metaV1+"ObjectMeta", metaTexts().metadata)
	properties["apiVersion"] = object{"type": "string", "description": metaTexts().apiVersion}
	properties["kind"] = object{"type": "string", "description": metaTexts().kind}
	visit(s, func(s object) { embed(s, d) })
	return s
}

func propertiesOf(s object) object {
	properties, ok := s["properties"].(object)
	if !ok {
		properties = object{}
		s["properties"] = properties
	}
	return properties
}

// embed adds the fields of all objects to the schema of an embedded object.
func embed(s object, d dialect) {
	if !isTrue(s, "x-kubernetes-embedded-resource") || d.two && isTrue(s, "x-kubernetes-preserve-unknown-fields") {
		return
	}
	properties := propertiesOf(s)
	properties["apiVersion"] = object{"type": "string", "description": "apiVersion defines the versioned schema of this representation of an object. " +
		"More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources"}
	properties["kind"] = object{"type": "string", "description": "kind is a string value representing the type of this object. In CamelCase. " +
		"More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds"}
	properties["metadata"] = d.reference(metaV1+"ObjectMeta", metaTexts().metadata)
	required, _ := s["required"].([]any)
	for _, name := range []any{"kind", "apiVersion"} {
		if !slices.Contains(required, name) {
			required = append(required, name)
		}
	}
	s["required"] = required
}

func (r *Resource) customList(d dialect) object {
	return object{
		"description": r.ListKind + " is a list of " + r.Kind,
		"type":        "object",
		"required":    []any{"items"},
		"properties": object{
			"apiVersion": object{"type": "string", "description": metaTexts().apiVersion},
			"kind":       object{"type": "string", "description": metaTexts().kind},
			"metadata":   d.reference(metaV1+"ListMeta", metaTexts().listMetadata),
			"items": object{
				"type":  "array",
				"items": d.reference(r.definition(r.Kind), ""),
				"description": "List of " + r.Plural + ". More info: " +
					"https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md",
			},
		},
	}
}
