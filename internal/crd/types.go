package crd

import (
	"encoding/json"
	"sync"

	"github.com/kapok-dev/kapok/internal/fields"
	"github.com/kapok-dev/kapok/internal/kinds/openapi"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// fieldTypes makes the types of field management for all versions of a custom resource.
type fieldTypes struct {
	group, kind string
	versions    []string
	preserve    bool
	source      *source

	types func() (func(schema.GroupVersionKind) *fields.Type, error)
}

func newFieldTypes(m *manifest, from *source) *fieldTypes {
	t := &fieldTypes{
		group:    m.Spec.Group,
		kind:     m.Status.AcceptedNames.Kind,
		preserve: m.Spec.PreserveUnknownFields,
		source:   from,
	}
	for _, v := range m.Spec.Versions {
		t.versions = append(t.versions, v.Name)
	}
	t.types = sync.OnceValues(t.build)
	return t
}

const objectMetaName = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"

// objectMeta returns the type of ObjectMeta and all types that it refers to, which all kinds share.
var objectMeta = sync.OnceValues(func() (*fields.Types, error) {
	_, types, err := fields.OfModels(openapi.Builtin().Closure(objectMetaName), false, nil)
	return types, err
})

func (t *fieldTypes) build() (func(schema.GroupVersionKind) *fields.Type, error) {
	base, err := objectMeta()
	if err != nil {
		return nil, err
	}
	models := map[string]*spec.Schema{}
	from := t.source.newest.Load()
	schemas, err := rawSchemas(from) // all at once, because a definition can have thousands of versions
	if err != nil {
		return nil, err
	}
	for _, version := range t.versions {
		s, err := parseSchema(from, version, schemas[version])
		if err != nil {
			return nil, err
		}
		root := &spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}}}
		if s != nil && isMergeable(s) {
			root = mergeSchema(s)
			asResource(root)
		}
		root.AddExtension("x-kubernetes-group-version-kind", []any{
			map[string]any{"group": t.group, "version": version, "kind": t.kind},
		})
		models[t.group+"/"+version+"."+t.kind] = root
	}
	kinds, _, err := fields.OfModels(models, t.preserve, base)
	return func(gvk schema.GroupVersionKind) *fields.Type { return kinds[gvk] }, err
}

// isMergeable reports whether the library that merges fields can use a schema; schemas that are not
// structural can lack types.
func isMergeable(s *apiextensionsv1.JSONSchemaProps) bool {
	switch s.Type {
	case "":
		if !s.XIntOrString && (s.XPreserveUnknownFields == nil || !*s.XPreserveUnknownFields) {
			return false
		}
	case "array":
		if s.Items == nil || s.Items.Schema == nil || !isMergeable(s.Items.Schema) {
			return false
		}
	case "object", "string", "integer", "number", "boolean":
	default:
		return false
	}
	for name := range s.Properties {
		if p := s.Properties[name]; !isMergeable(&p) {
			return false
		}
	}
	return s.AdditionalProperties == nil || s.AdditionalProperties.Schema == nil || isMergeable(s.AdditionalProperties.Schema)
}

// mergeSchema returns the parts of a structural schema that define how values are merged.
func mergeSchema(s *apiextensionsv1.JSONSchemaProps) *spec.Schema {
	to := &spec.Schema{}
	if s.Type != "" {
		to.Type = []string{s.Type}
	}
	to.Format = s.Format
	to.Nullable = s.Nullable
	if s.Default != nil {
		_ = json.Unmarshal(s.Default.Raw, &to.Default) // cannot fail: it was decoded from JSON
	}
	if s.Items != nil && s.Items.Schema != nil {
		to.Items = &spec.SchemaOrArray{Schema: mergeSchema(s.Items.Schema)}
	}
	if len(s.Properties) > 0 {
		to.Properties = make(map[string]spec.Schema, len(s.Properties))
		for name := range s.Properties {
			p := s.Properties[name]
			to.Properties[name] = *mergeSchema(&p)
		}
	}
	if a := s.AdditionalProperties; a != nil {
		to.AdditionalProperties = &spec.SchemaOrBool{Allows: a.Allows}
		if a.Schema != nil {
			to.AdditionalProperties.Schema = mergeSchema(a.Schema)
		}
	}
	if s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields {
		to.AddExtension("x-kubernetes-preserve-unknown-fields", true)
	}
	if len(s.XListMapKeys) > 0 {
		keys := make([]any, len(s.XListMapKeys))
		for i, k := range s.XListMapKeys {
			keys[i] = k
		}
		to.AddExtension("x-kubernetes-list-map-keys", keys)
	}
	if s.XListType != nil {
		to.AddExtension("x-kubernetes-list-type", *s.XListType)
	}
	if s.XMapType != nil {
		to.AddExtension("x-kubernetes-map-type", *s.XMapType)
	}
	if s.XEmbeddedResource {
		asResource(to)
	}
	return to
}

// asResource adds the fields that every resource has.
func asResource(s *spec.Schema) {
	text := spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"string"}}}
	s.SetProperty("apiVersion", text)
	s.SetProperty("kind", text)
	s.SetProperty("metadata", *spec.RefSchema(openapi.RefPrefix + objectMetaName))
}
