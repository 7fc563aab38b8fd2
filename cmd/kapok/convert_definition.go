package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/kapok-dev/kapok/internal/crd"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// acceptable returns why a server would refuse a new CustomResourceDefinition, in the version that
// it is written in.
func acceptable(definition runtime.Object) error {
	gvk := definition.GetObjectKind().GroupVersionKind()
	data, err := json.Marshal(definition)
	if err != nil {
		return err
	}
	kind := crd.Definition(true)
	for _, v := range kind.Versions {
		if v.Name != gvk.Version || kind.Group != gvk.Group {
			continue
		}
		tree, err := v.Model.Decode(data, nil)
		if err != nil {
			return err
		}
		kind.Strategy.PrepareCreate(tree)
		if errs := v.Model.Validate(context.Background(), tree, nil, ""); len(errs) > 0 {
			return errs.ToAggregate()
		}
		return nil
	}
	return fmt.Errorf("version %s of CustomResourceDefinition is not supported", gvk.GroupVersion())
}

// keepUnknownFields moves spec.preserveUnknownFields, which is the default in v1beta1 and rejected
// in v1, into the schemas: fields that are not in a schema are kept.
func keepUnknownFields(definition *apiextensionsv1.CustomResourceDefinition) {
	spec := &definition.Spec
	if !spec.PreserveUnknownFields {
		return
	}
	spec.PreserveUnknownFields = false
	for i := range spec.Versions {
		v := &spec.Versions[i]
		if v.Schema == nil {
			v.Schema = &apiextensionsv1.CustomResourceValidation{}
		}
		if v.Schema.OpenAPIV3Schema == nil {
			v.Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{}
		}
		root := v.Schema.OpenAPIV3Schema
		if root.Type == "" {
			root.Type = "object"
		}
		keepAll(root, true)
	}
}

// keepAll makes a schema and all schemas below it preserve unknown fields. Their validations
// remain. resource means that the schema has metadata, which is never pruned and for which schemas
// allow few fields.
func keepAll(s *apiextensionsv1.JSONSchemaProps, resource bool) {
	if (s.Type == "object" || s.Type == "") && !s.XIntOrString {
		keep := true
		s.XPreserveUnknownFields = &keep
	}
	for name, p := range s.Properties {
		if resource && name == "metadata" {
			if p.Type == "" {
				p.Type = "object"
				s.Properties[name] = p
			}
			continue
		}
		keepAll(&p, p.XEmbeddedResource)
		s.Properties[name] = p
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		keepAll(s.AdditionalProperties.Schema, s.AdditionalProperties.Schema.XEmbeddedResource)
	}
	if s.Type == "array" && s.Items == nil {
		s.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{}}
	}
	if s.Items != nil && s.Items.Schema != nil {
		keepAll(s.Items.Schema, s.Items.Schema.XEmbeddedResource)
	}
}
