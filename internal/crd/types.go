package crd

import (
	"encoding/json"
	"sync"

	"github.com/kapok-dev/kapok/internal/builtin/openapi"
	"github.com/kapok-dev/kapok/internal/manage"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// fieldTypes is what field management needs to know of all versions of a custom resource.
type fieldTypes struct {
	group, kind string
	versions    []string
	preserve    bool
	source      *source

	types func() (func(schema.GroupVersionKind) *manage.Type, error)
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

// objectMeta is the type of ObjectMeta and of all that it refers to, which all kinds share.
var objectMeta = sync.OnceValues(func() (*manage.Types, error) {
	_, types, err := manage.OfModels(openapi.Builtin().Closure(objectMetaName), false, nil)
	return types, err
})

func (t *fieldTypes) build() (func(schema.GroupVersionKind) *manage.Type, error) {
	base, err := objectMeta()
	if err != nil {
		return nil, err
	}
	models := map[string]*spec.Schema{}
	for _, version := range t.versions {
		s, err := readSchema(t.source.newest.Load(), version)
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
	kinds, _, err := manage.OfModels(models, t.preserve, base)
	return func(gvk schema.GroupVersionKind) *manage.Type { return kinds[gvk] }, err
}

// isMergeable says whether the library that merges fields can work with a schema; those that are not structural may
// lack types.
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

// mergeSchema keeps of a structural schema what says how values are merged.
func mergeSchema(s *apiextensionsv1.JSONSchemaProps) *spec.Schema {
	to := &spec.Schema{}
	if s.Type != "" {
		to.Type = []string{s.Type}
	}
	to.Format = s.Format
	to.Nullable = s.Nullable
	if s.Default != nil {
		_ = json.Unmarshal(s.Default.Raw, &to.Default) // it was read from JSON
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
