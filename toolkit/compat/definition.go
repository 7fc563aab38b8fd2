package compat

import (
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// A Change is one that breaks users of a definition.
type Change struct {
	// Version of the definition, "" for the definition as a whole.
	Version string
	// Path of the field within objects, such as .spec.ports[].name; "" for the version as a whole.
	Path string
	// What has changed.
	What string
}

func (c Change) String() string {
	text := c.What
	if c.Path != "" {
		text = c.Path + ": " + text
	}
	if c.Version != "" {
		text = c.Version + ": " + text
	}
	return text
}

// Definitions returns the changes from a definition to a later state of it that break its users, in
// the order of versions and paths. Versions that were not served have no users.
func Definitions(before, after *apiextensionsv1.CustomResourceDefinition) []Change {
	var all []Change
	add := func(version, format string, args ...any) {
		all = append(all, Change{Version: version, What: fmt.Sprintf(format, args...)})
	}
	if before.Spec.Group != after.Spec.Group {
		add("", "the group changes from %s to %s", before.Spec.Group, after.Spec.Group)
	}
	if before.Spec.Scope != after.Spec.Scope {
		add("", "the scope changes from %s to %s", before.Spec.Scope, after.Spec.Scope)
	}
	if was, is := before.Spec.Names, after.Spec.Names; was.Kind != is.Kind || was.Plural != is.Plural {
		add("", "the names change from %s (%s) to %s (%s)", was.Kind, was.Plural, is.Kind, is.Plural)
	}
	for _, name := range before.Spec.Names.ShortNames {
		if !slices.Contains(after.Spec.Names.ShortNames, name) {
			add("", "the short name %s is gone", name)
		}
	}
	for i := range before.Spec.Versions {
		was := &before.Spec.Versions[i]
		if !was.Served {
			continue
		}
		at := slices.IndexFunc(after.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == was.Name })
		switch {
		case at < 0:
			add(was.Name, "the version is gone")
		case !after.Spec.Versions[at].Served:
			add(was.Name, "the version is not served any more")
		default:
			all = append(all, versions(was, &after.Spec.Versions[at])...)
		}
	}
	return all
}

// versions compares two states of a version.
func versions(was, is *apiextensionsv1.CustomResourceDefinitionVersion) []Change {
	var all []Change
	add := func(format string, args ...any) {
		all = append(all, Change{Version: was.Name, What: fmt.Sprintf(format, args...)})
	}
	oldSub, newSub := subresources(was), subresources(is)
	switch {
	case oldSub.Status != nil && newSub.Status == nil:
		add("the subresource status is gone")
	case oldSub.Status == nil && newSub.Status != nil:
		add("the subresource status is new: writes of the object ignore status now")
	}
	switch o, n := oldSub.Scale, newSub.Scale; {
	case o != nil && n == nil:
		add("the subresource scale is gone")
	case o != nil && (o.SpecReplicasPath != n.SpecReplicasPath || o.StatusReplicasPath != n.StatusReplicasPath || text(o.LabelSelectorPath) != text(n.LabelSelectorPath)):
		add("the paths of the subresource scale change")
	}
	for _, field := range was.SelectableFields {
		if !slices.Contains(is.SelectableFields, field) {
			add("the field %s is not selectable any more", field.JSONPath)
		}
	}
	c := &comparison{version: was.Name}
	c.schemas("", schemaOf(was), schemaOf(is))
	return append(all, c.found...)
}

func subresources(v *apiextensionsv1.CustomResourceDefinitionVersion) apiextensionsv1.CustomResourceSubresources {
	if v.Subresources == nil {
		return apiextensionsv1.CustomResourceSubresources{}
	}
	return *v.Subresources
}

func schemaOf(v *apiextensionsv1.CustomResourceDefinitionVersion) *apiextensionsv1.JSONSchemaProps {
	if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
		return &apiextensionsv1.JSONSchemaProps{Type: "object"}
	}
	return v.Schema.OpenAPIV3Schema
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
