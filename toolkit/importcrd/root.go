package importcrd

import (
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// approved is the annotation that definitions of groups of Kubernetes must have.
const approved = apiextensionsv1.KubeAPIApprovedAnnotation

// rootMarkers returns the markers for what a definition has besides its schemas.
func (k *kind) rootMarkers() []string {
	names, v := k.definition.Spec.Names, k.version
	all := []string{"kubebuilder:object:root=true"}
	resource := "kubebuilder:resource:path=" + names.Plural + ",scope=" + string(k.definition.Spec.Scope)
	if names.Singular != "" && names.Singular != strings.ToLower(names.Kind) {
		resource += ",singular=" + names.Singular
	}
	if len(names.ShortNames) > 0 {
		resource += ",shortName=" + words(names.ShortNames)
	}
	if len(names.Categories) > 0 {
		resource += ",categories=" + words(names.Categories)
	}
	all = append(all, resource)
	if value := k.definition.Annotations[approved]; value != "" {
		all = append(all, "kubebuilder:metadata:annotations="+quote(approved+"="+value))
	}
	if v.Storage {
		all = append(all, "kubebuilder:storageversion")
	}
	if !v.Served {
		all = append(all, "kubebuilder:unservedversion")
	}
	if v.Deprecated {
		text := "kubebuilder:deprecatedversion"
		if v.DeprecationWarning != nil {
			text += ":warning=" + quote(*v.DeprecationWarning)
		}
		all = append(all, text)
	}
	if sub := v.Subresources; sub != nil {
		if sub.Status != nil {
			all = append(all, "kubebuilder:subresource:status")
		}
		if scale := sub.Scale; scale != nil {
			text := "kubebuilder:subresource:scale:specpath=" + scale.SpecReplicasPath + ",statuspath=" + scale.StatusReplicasPath
			if scale.LabelSelectorPath != nil {
				text += ",selectorpath=" + *scale.LabelSelectorPath
			}
			all = append(all, text)
		}
	}
	for _, field := range v.SelectableFields {
		all = append(all, "kubebuilder:selectablefield:JSONPath="+quote(field.JSONPath))
	}
	for _, column := range v.AdditionalPrinterColumns {
		text := "kubebuilder:printcolumn:name=" + quote(column.Name) + ",type=" + quote(column.Type) + ",JSONPath=" + quote(column.JSONPath)
		if column.Description != "" {
			text += ",description=" + quote(column.Description)
		}
		if column.Format != "" {
			text += ",format=" + quote(column.Format)
		}
		if column.Priority != 0 {
			text += ",priority=" + itoa(int64(column.Priority))
		}
		all = append(all, text)
	}
	return all
}

// words returns a list as the text of a marker.
func words(list []string) string {
	quoted := make([]string, len(list))
	for i, word := range list {
		quoted[i] = quoteUnlessPlain(word)
	}
	return strings.Join(quoted, ";")
}
