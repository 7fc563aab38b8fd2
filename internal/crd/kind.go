package crd

import (
	"slices"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Resource is the group and the plural name of CustomResourceDefinitions.
var Resource = schema.GroupResource{Group: apiextensionsv1.GroupName, Resource: "customresourcedefinitions"}

// Definition returns the definition of the kind CustomResourceDefinition. With v1beta1, that
// version is served beside v1. Objects are stored as v1.
func Definition(v1beta1 bool) *resource.Definition {
	stable := kindVersion(&apiextensionsv1.CustomResourceDefinition{}, apiextensionsv1.SchemeGroupVersion)
	d := &resource.Definition{
		Group:      apiextensionsv1.GroupName,
		Plural:     Resource.Resource,
		Singular:   "customresourcedefinition",
		Kind:       "CustomResourceDefinition",
		ListKind:   "CustomResourceDefinitionList",
		ShortNames: []string{"crd", "crds"},
		Categories: []string{"api-extensions"},
		Versions:   []*resource.Version{stable},
		Storage:    stable,
		Strategy: resource.Strategy{
			PrepareCreate:          prepareKindCreate,
			PrepareUpdate:          prepareKindUpdate,
			ValidatesMetadataTwice: true,
			Warnings:               kindWarnings,
		},
		Deletion: resource.Deletion{Finalization: &resource.Finalization{
			// The first deletion adds the cleanup finalizer, which later ones wait for.
			Waits: func(obj resource.Tree) bool { _, deleting := metadataOf(obj)["deletionTimestamp"]; return !deleting },
			Begin: prepareKindDelete,
		}},
	}
	if v1beta1 {
		beta := kindVersion(&apiextensionsv1beta1.CustomResourceDefinition{}, apiextensionsv1beta1.SchemeGroupVersion)
		beta.Warning = "apiextensions.k8s.io/v1beta1 CustomResourceDefinition is deprecated in v1.16+, unavailable in v1.22+; use apiextensions.k8s.io/v1 CustomResourceDefinition"
		d.Versions = append(d.Versions, beta)
		d.Convert = convertKind
	}
	return d
}

func kindVersion(empty runtime.Object, gv schema.GroupVersion) *resource.Version {
	status, spec := fieldpath.MakePathOrDie("status"), fieldpath.MakePathOrDie("spec")
	return &resource.Version{
		Name:        gv.Version,
		Model:       newKindModel(empty, gv),
		ResetFields: fieldpath.NewSet(status),
		Subresources: []resource.Subresource{{
			Name: "status",
			// A write of the status may change metadata, in particular finalizers.
			Prepare:     func(obj, old resource.Tree) { obj["spec"] = runtime.DeepCopyJSONValue(old["spec"]) },
			ResetFields: fieldpath.NewSet(spec),
		}},
		Columns: kindColumns(),
		Cells:   kindCells,
	}
}

func prepareKindCreate(obj resource.Tree) {
	metadataOf(obj)["generation"] = int64(1)
	obj["status"] = resource.Tree{
		"acceptedNames":  resource.Tree{"plural": "", "kind": ""},
		"conditions":     nil,
		"storedVersions": nil,
	}
	addStoredVersion(obj)
}

func prepareKindUpdate(obj, old resource.Tree) {
	obj["status"] = runtime.DeepCopyJSONValue(old["status"])
	if !object.Equal(obj["spec"], old["spec"]) {
		generation, _ := metadataOf(old)["generation"].(int64)
		metadataOf(obj)["generation"] = generation + 1
	}
	addStoredVersion(obj)
}

// addStoredVersion adds the storage version to status.storedVersions.
func addStoredVersion(obj resource.Tree) {
	status, ok := obj["status"].(map[string]any)
	if !ok {
		return
	}
	stored, _ := status["storedVersions"].([]any)
	for _, v := range versionsOf(obj) {
		if v["storage"] != true {
			continue
		}
		if !slices.Contains(stored, v["name"]) {
			status["storedVersions"] = append(stored, v["name"])
		}
		return // validation rejects all storage versions but the first
	}
}

func versionsOf(obj resource.Tree) []resource.Tree {
	spec, _ := obj["spec"].(map[string]any)
	list, _ := spec["versions"].([]any)
	var versions []resource.Tree
	for _, v := range list {
		if m, ok := v.(map[string]any); ok {
			versions = append(versions, m)
		}
	}
	return versions
}

// prepareKindDelete adds the cleanup finalizer and the condition Terminating to a definition that
// is being deleted. A second delete changes nothing.
func prepareKindDelete(obj resource.Tree) {
	status, ok := obj["status"].(map[string]any)
	if !ok {
		status = resource.Tree{}
		obj["status"] = status
	}
	conditions, _ := status["conditions"].([]any)
	for _, c := range conditions {
		if m, _ := c.(map[string]any); m["type"] == string(apiextensionsv1.Terminating) && m["status"] == string(apiextensionsv1.ConditionTrue) {
			return
		}
	}
	m := metadataOf(obj)
	finalizers, _ := m["finalizers"].([]any)
	if !slices.Contains(finalizers, any(apiextensionsv1.CustomResourceCleanupFinalizer)) {
		m["finalizers"] = append(finalizers, apiextensionsv1.CustomResourceCleanupFinalizer)
	}
	at, _ := m["deletionTimestamp"].(string)
	pending := resource.Tree{
		"type":               string(apiextensionsv1.Terminating),
		"status":             string(apiextensionsv1.ConditionTrue),
		"lastTransitionTime": at,
		"reason":             "InstanceDeletionPending",
		"message":            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
	}
	status["conditions"] = append(slices.DeleteFunc(slices.Clone(conditions), func(c any) bool {
		m, _ := c.(map[string]any)
		return m["type"] == pending["type"]
	}), pending)
}

func kindColumns() []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		nameColumn(),
		{Name: "Scope", Type: "string", Description: "Cluster/Namespaced"},
		{Name: "Versions", Type: "string", Description: "Served versions"},
		{Name: "Created At", Type: "date", Description: metaDoc("creationTimestamp")},
		{Name: "Group", Type: "string", Priority: 1, Description: "API group"},
		{Name: "Kind", Type: "string", Priority: 1, Description: "CustomResource kind"},
		{Name: "ShortNames", Type: "string", Priority: 1, Description: "Short names"},
		{Name: "Established", Type: "boolean", Priority: 1, Description: "Established status"},
	}
}

func kindCells(obj resource.Tree, _ time.Time) []any {
	stringAt := func(keys ...string) string {
		v, _ := follow(obj, keys)
		s, _ := v.(string)
		return s
	}
	var served, short []string
	for _, v := range versionsOf(obj) {
		if name, _ := v["name"].(string); v["served"] == true {
			if v["storage"] == true {
				name += "(storage)"
			}
			served = append(served, name)
		}
	}
	slices.Sort(served)
	if list, ok := follow(obj, []string{"spec", "names", "shortNames"}); ok {
		for _, s := range list.([]any) {
			if s, ok := s.(string); ok {
				short = append(short, s)
			}
		}
	}
	return []any{
		stringAt("metadata", "name"), stringAt("spec", "scope"), strings.Join(served, ","), stringAt("metadata", "creationTimestamp"),
		stringAt("spec", "group"), stringAt("spec", "names", "kind"), strings.Join(short, ","), isEstablished(obj),
	}
}

func isEstablished(obj resource.Tree) bool {
	conditions, _ := follow(obj, []string{"status", "conditions"})
	list, _ := conditions.([]any)
	return slices.ContainsFunc(list, func(c any) bool {
		m, _ := c.(map[string]any)
		return m["type"] == string(apiextensionsv1.Established) && m["status"] == string(apiextensionsv1.ConditionTrue)
	})
}
