package client

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GVKForObject returns the kind of an object or a list. For a Go type of the Scheme it is the kind
// under which the type is registered; if there are several, the TypeMeta of the object selects one.
// Unstructured objects and metadata carry their kind, and need not be in the Scheme.
func GVKForObject(obj runtime.Object, scheme *runtime.Scheme) (schema.GroupVersionKind, error) {
	if isNil(obj) {
		return schema.GroupVersionKind{}, fmt.Errorf("kind of an object: the object is nil (%T)", obj)
	}
	said := obj.GetObjectKind().GroupVersionKind()
	if formOf(obj) != typed {
		switch {
		case said.Kind == "":
			return said, runtime.NewMissingKindErr(fmt.Sprintf("%T", obj))
		case said.Version == "":
			return said, runtime.NewMissingVersionErr(fmt.Sprintf("%T %s", obj, said.Kind))
		}
		return said, nil
	}
	gvks, unversioned, err := scheme.ObjectKinds(obj)
	switch {
	case err != nil:
		return schema.GroupVersionKind{}, err
	case unversioned:
		return schema.GroupVersionKind{}, fmt.Errorf("kind of %T: the type has no version", obj)
	case len(gvks) == 1:
		return gvks[0], nil
	case slices.Contains(gvks, said):
		return said, nil
	}
	return schema.GroupVersionKind{}, fmt.Errorf("kind of %T: registered as %v: set apiVersion and kind to one of these", obj, gvks)
}

// IsObjectNamespaced reports whether the kind of obj is namespaced.
func IsObjectNamespaced(obj runtime.Object, scheme *runtime.Scheme, mapper meta.RESTMapper) (bool, error) {
	gvk, err := GVKForObject(obj, scheme)
	if err != nil {
		return false, err
	}
	gvk = itemKind(gvk, obj)
	mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return false, err
	}
	return mapping.Scope.Name() != meta.RESTScopeNameRoot, nil
}

// A form is the part of an object that a Go type holds.
type form int

const (
	typed        form = iota // a type of the Scheme
	unstructured             // all fields as a map
	metadata                 // metadata alone
)

func formOf(obj runtime.Object) form {
	switch obj.(type) {
	case *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList:
		return metadata
	case runtime.Unstructured:
		return unstructured
	}
	return typed
}

// itemKind is the kind of the items, if obj is a list.
func itemKind(gvk schema.GroupVersionKind, obj runtime.Object) schema.GroupVersionKind {
	if isList(obj) {
		gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	}
	return gvk
}

// isList also knows that an unstructured object may have items.
func isList(obj runtime.Object) bool {
	_, isObject := obj.(Object)
	return !isObject && meta.IsListType(obj)
}

// isNil also knows nil pointers in an interface.
func isNil(obj any) bool {
	if obj == nil {
		return true
	}
	v := reflect.ValueOf(obj)
	return v.Kind() == reflect.Pointer && v.IsNil()
}
