package fake

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/client"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
)

// patience limits the time until the kind of a new definition is served, which takes milliseconds.
const patience = 30 * time.Second

// define creates definitions of the kinds of the Scheme that are not built in, and waits until the
// server serves them.
func (b *ClientBuilder) define(ctx context.Context, server *kapok.Server, objects []client.Object) error {
	c, err := client.New(server.Config(), client.Options{Scheme: b.scheme})
	if err != nil {
		return err
	}
	versions := map[schema.GroupKind][]string{}
	for gvk, t := range b.scheme.AllKnownTypes() {
		if b.isCustom(gvk, t) {
			versions[gvk.GroupKind()] = append(versions[gvk.GroupKind()], gvk.Version)
		}
	}
	var definitions []*unstructured.Unstructured
	for kind, served := range versions {
		slices.Sort(served)
		d := b.definition(kind, served, objects)
		if err := c.Create(ctx, d); err != nil {
			return fmt.Errorf("kind %s: %w", kind, err)
		}
		definitions = append(definitions, d)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, d := range definitions {
		err := wait.PollUntilContextCancel(ctx, time.Millisecond, true, func(ctx context.Context) (bool, error) {
			err := c.Get(ctx, client.ObjectKeyFromObject(d), d)
			return err == nil && isEstablished(d), err
		})
		if err != nil {
			return fmt.Errorf("definition %s: %w", d.GetName(), err)
		}
	}
	return nil
}

// isCustom reports whether a kind needs a definition. The group of one has a dot. Kubernetes' own
// kinds are served, or retired.
func (b *ClientBuilder) isCustom(gvk schema.GroupVersionKind, t reflect.Type) bool {
	return strings.Contains(gvk.Group, ".") && gvk.Version != runtime.APIVersionInternal && !clientscheme.Scheme.Recognizes(gvk) &&
		gvk.Group != "apiextensions.k8s.io" && gvk.Group != "apiregistration.k8s.io" && !strings.HasSuffix(gvk.Kind, "List") &&
		reflect.PointerTo(t).Implements(reflect.TypeFor[client.Object]()) && b.scheme.Recognizes(gvk.GroupVersion().WithKind(gvk.Kind+"List"))
}

func (b *ClientBuilder) definition(kind schema.GroupKind, served []string, objects []client.Object) *unstructured.Unstructured {
	subresources := map[string]any{}
	if slices.ContainsFunc(b.status, func(o client.Object) bool { return b.isOf(o, kind) }) {
		subresources["status"] = map[string]any{}
	}
	var versions []any
	for i, version := range served {
		versions = append(versions, map[string]any{
			"name": version, "served": true, "storage": i == len(served)-1, "subresources": subresources,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
		})
	}
	scope := "Namespaced"
	if b.isClusterScoped(kind, served, objects) {
		scope = "Cluster"
	}
	plural, singular := meta.UnsafeGuessKindToResource(kind.WithVersion(served[0]))
	d := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"spec": map[string]any{
			"group": kind.Group, "scope": scope, "versions": versions,
			"names": map[string]any{"kind": kind.Kind, "listKind": kind.Kind + "List", "plural": plural.Resource, "singular": singular.Resource},
		},
	}}
	d.SetName(plural.Resource + "." + kind.Group)
	if strings.HasSuffix(kind.Group, ".k8s.io") || strings.HasSuffix(kind.Group, ".kubernetes.io") {
		d.SetAnnotations(map[string]string{"api-approved.kubernetes.io": "unapproved, served by a fake client"})
	}
	return d
}

func (b *ClientBuilder) isClusterScoped(kind schema.GroupKind, served []string, objects []client.Object) bool {
	if b.mapper != nil {
		if mapping, err := b.mapper.RESTMapping(kind, served...); err == nil {
			return mapping.Scope.Name() == meta.RESTScopeNameRoot
		}
	}
	return slices.ContainsFunc(objects, func(o client.Object) bool { return o.GetNamespace() == "" && b.isOf(o, kind) })
}

// isOf reports whether an object is of a kind.
func (b *ClientBuilder) isOf(obj client.Object, kind schema.GroupKind) bool {
	gvk, err := client.GVKForObject(obj, b.scheme)
	return err == nil && gvk.GroupKind() == kind
}

func isEstablished(d *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(d.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(c any) bool {
		condition, _ := c.(map[string]any)
		return condition["type"] == "Established" && condition["status"] == "True"
	})
}
