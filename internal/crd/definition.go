package crd

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/kapok-dev/kapok/internal/crd/conversion"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// customDefinition returns the definition of the resource that a CustomResourceDefinition
// describes, under the names that it has been granted. Schemas are read from the given source, and
// a conversion webhook is taken from webhooks. The definition has a storage version; it may have no
// served ones.
func customDefinition(m *manifest, from *source, webhooks *conversion.Webhooks) (*resource.Definition, error) {
	names := m.Status.AcceptedNames
	d := &resource.Definition{
		Group:      m.Spec.Group,
		Plural:     names.Plural,
		Singular:   names.Singular,
		Kind:       names.Kind,
		ListKind:   names.ListKind,
		ShortNames: names.ShortNames,
		Categories: names.Categories,
		Namespaced: m.Spec.Scope == apiextensionsv1.NamespaceScoped,
		Custom:     true,

		DefinedBy:    m.object.Key,
		DefinedByUID: m.Metadata.UID,
		Terminating:  m.terminating(),
	}
	types := newFieldTypes(m, from)
	statuses := map[string]bool{} // by apiVersion: whether the version has a status subresource
	for i := range m.Spec.Versions {
		stated := &m.Spec.Versions[i]
		v := customVersion(m, from, stated, types)
		statuses[d.APIVersion(v)] = v.Subresource("status") != nil
		if stated.Storage {
			d.Storage = v
		}
		if stated.Served {
			d.Versions = append(d.Versions, v)
		} else {
			d.Unserved = append(d.Unserved, v)
		}
	}
	if d.Storage == nil {
		return nil, fmt.Errorf("%s has no storage version", m.object.Key)
	}
	slices.SortStableFunc(d.Versions, func(a, b *resource.Version) int {
		return version.CompareKubeAwareVersionStrings(b.Name, a.Name)
	})
	if c := m.Spec.Conversion; c != nil && c.Strategy == apiextensionsv1.WebhookConverter {
		hook := webhooks.New(m.object.Key.Name, c.Webhook)
		d.Webhook = func(ctx context.Context, objs []resource.Tree, to *resource.Version) ([]resource.Tree, error) {
			return hook.Convert(ctx, objs, d.APIVersion(to))
		}
	}
	hasStatus := func(obj resource.Tree) bool {
		apiVersion, _ := obj["apiVersion"].(string)
		return statuses[apiVersion]
	}
	d.Strategy = resource.Strategy{
		PrepareCreate: func(obj resource.Tree) { prepareCreate(obj, hasStatus(obj)) },
		PrepareUpdate: func(obj, old resource.Tree) { prepareUpdate(obj, old, hasStatus(obj)) },
		Warnings:      finalizerWarnings,
	}
	return d, nil
}

func customVersion(m *manifest, from *source, stated *manifestVersion, types *fieldTypes) *resource.Version {
	v := &resource.Version{
		Name:      stated.Name,
		Model:     newModel(m, from, stated, types),
		Published: publish(m, from, stated.Name),
	}
	if sub := stated.Subresources; sub != nil {
		if sub.Status != nil {
			v.ResetFields = fieldpath.NewSet(fieldpath.MakePathOrDie("status"))
			v.Subresources = []resource.Subresource{{
				Name:        "status",
				Prepare:     prepareStatus,
				ResetFields: fieldpath.NewSet(fieldpath.MakePathOrDie("metadata"), fieldpath.MakePathOrDie("spec")),
			}}
		}
		v.Scale = scaleOf(sub.Scale)
	}
	v.Columns, v.Cells = table(stated.AdditionalPrinterColumns)
	v.Selectable, v.Fields, v.FieldPaths = selectable(stated.SelectableFields)
	if stated.Deprecated {
		v.Warning = deprecation(m, stated)
	}
	return v
}

// deprecation returns the warning that all responses of a deprecated version carry.
func deprecation(m *manifest, stated *manifestVersion) string {
	if stated.DeprecationWarning != nil {
		return *stated.DeprecationWarning
	}
	warning := fmt.Sprintf("%s/%s %s is deprecated", m.Spec.Group, stated.Name, m.Spec.Names.Kind)
	best := ""
	for _, v := range m.Spec.Versions {
		if v.Served && !v.Deprecated && version.CompareKubeAwareVersionStrings(stated.Name, v.Name) < 0 &&
			(best == "" || version.CompareKubeAwareVersionStrings(best, v.Name) < 0) {
			best = v.Name
		}
	}
	if best != "" {
		warning += fmt.Sprintf("; use %s/%s %s", m.Spec.Group, best, m.Spec.Names.Kind)
	}
	return warning
}

func prepareCreate(obj resource.Tree, hasStatus bool) {
	if hasStatus {
		delete(obj, "status")
	}
	metadataOf(obj)["generation"] = int64(1)
}

// prepareUpdate increments the generation if anything but metadata changed. With a status
// subresource it restores the status.
func prepareUpdate(obj, old resource.Tree, hasStatus bool) {
	if hasStatus {
		if status, ok := old["status"]; ok {
			obj["status"] = runtime.DeepCopyJSONValue(status)
		} else {
			delete(obj, "status")
		}
	}
	if !equalButMetadata(obj, old) {
		generation, _ := metadataOf(old)["generation"].(int64)
		metadataOf(obj)["generation"] = generation + 1
	}
}

// prepareStatus keeps the status and managedFields of obj, and restores everything else from old.
func prepareStatus(obj, old resource.Tree) {
	status, has := obj["status"]
	managed, isManaged := metadataOf(obj)["managedFields"]
	clear(obj)
	maps.Copy(obj, runtime.DeepCopyJSON(old))
	delete(obj, "status")
	if has {
		obj["status"] = status
	}
	delete(metadataOf(obj), "managedFields")
	if isManaged {
		metadataOf(obj)["managedFields"] = managed
	}
}

// metadataOf returns the metadata of a tree, and adds it if there is none.
func metadataOf(obj resource.Tree) resource.Tree {
	m, ok := obj["metadata"].(map[string]any)
	if !ok {
		m = resource.Tree{}
		obj["metadata"] = m
	}
	return m
}

func equalButMetadata(a, b resource.Tree) bool {
	count := func(t resource.Tree) int {
		if _, ok := t["metadata"]; ok {
			return len(t) - 1
		}
		return len(t)
	}
	if count(a) != count(b) {
		return false
	}
	for k, v := range a {
		if w, ok := b[k]; k != "metadata" && (!ok || !object.Equal(v, w)) {
			return false
		}
	}
	return true
}
