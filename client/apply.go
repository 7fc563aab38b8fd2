package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	unstructuredv1 "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"
)

// ApplyConfigurationFromUnstructured returns an apply configuration that sends u as it is. The
// response is decoded into u. Do not pass an object that was read from the server: it would claim
// ownership of all its fields.
func ApplyConfigurationFromUnstructured(u *unstructuredv1.Unstructured) runtime.ApplyConfiguration {
	return objectConfiguration{u, true}
}

// ApplyConfigurationFrom returns an apply configuration made of an object, in which only the fields
// should be set that the caller wants to own. The response is decoded into obj.
//
// It sends the JSON of obj without fields that an owner cannot set: status; metadata that the
// server sets (uid, resourceVersion, generation, creationTimestamp, deletionTimestamp,
// deletionGracePeriodSeconds, managedFields, selfLink); nulls; and zero structs, such as a
// targetPort, a Quantity, or the resources of a container. Other zero values are sent if the Go
// type has no omitempty for them, because such fields are required. To own a zero value otherwise,
// use client-go's apply configurations or ApplyConfigurationFromUnstructured. Apply of the
// subresource status sends status and the names only.
func ApplyConfigurationFrom(obj Object) runtime.ApplyConfiguration {
	return objectConfiguration{obj, false}
}

type objectConfiguration struct {
	Object
	verbatim bool
}

func (objectConfiguration) IsApplyConfiguration() {}

// An applyConfiguration is a generated one, as for the kinds of k8s.io/api.
type applyConfiguration interface {
	GetName() *string
	GetNamespace() *string
	GetKind() *string
	GetAPIVersion() *string
}

func (c *client) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...ApplyOption) error {
	return c.apply(ctx, obj, "", opts)
}

func (c *client) apply(ctx context.Context, obj runtime.ApplyConfiguration, subresource string, opts []WriteOption) error {
	gvk, key, err := applied(c, obj)
	if err != nil {
		return err
	}
	o := c.writeOptions(opts)
	body, err := applyBody(obj, gvk, subresource)
	if err != nil {
		return fmt.Errorf("apply %s %q: %w", gvk.Kind, key, err)
	}
	r := c.one(ctx, http.MethodPatch, gvk, key).params(o.AsPatchOptions()).patch(RawPatch(types.ApplyYAMLPatchType, body), nil, gvk)
	if subresource != "" && r.err == nil {
		r.rest.SubResource(subresource)
	}
	if applied, ok := obj.(objectConfiguration); ok {
		if err := r.do(ctx, applied.Object); err != nil {
			return err
		}
		c.wrote(gvk, applied.Object, gvk, o)
		return nil
	}
	answer, _, err := r.send(ctx, jsonType)
	if err != nil {
		return err
	}
	var meta metav1.PartialObjectMetadata
	if err := json.Unmarshal(answer, &meta); err != nil {
		return fmt.Errorf("decode %s: %w", gvk.Kind, err)
	}
	c.wrote(gvk, &meta, meta.GroupVersionKind(), o)
	reflect.ValueOf(obj).Elem().SetZero()
	if err := json.Unmarshal(answer, obj); err != nil {
		return fmt.Errorf("decode %s: %w", gvk.Kind, err)
	}
	return nil
}

// applied returns the kind and key of an apply configuration.
func applied(c Client, obj runtime.ApplyConfiguration) (gvk schema.GroupVersionKind, key ObjectKey, err error) {
	if isNil(obj) {
		return gvk, key, fmt.Errorf("apply: the configuration is nil (%T)", obj)
	}
	switch o := obj.(type) {
	case objectConfiguration:
		if gvk, err = c.GroupVersionKindFor(o.Object); err != nil {
			return gvk, key, fmt.Errorf("apply: %w", err)
		}
		return gvk, ObjectKeyFromObject(o.Object), nil
	case applyConfiguration:
		gv, err := schema.ParseGroupVersion(deref(o.GetAPIVersion()))
		if err != nil {
			return gvk, key, fmt.Errorf("apply: %w", err)
		}
		gvk = gv.WithKind(deref(o.GetKind()))
		if gvk.Kind == "" || gvk.Version == "" {
			return gvk, key, fmt.Errorf("apply: the configuration (%T) has no kind or no apiVersion", obj)
		}
		return gvk, ObjectKey{Namespace: deref(o.GetNamespace()), Name: deref(o.GetName())}, nil
	}
	return gvk, key, fmt.Errorf("apply: cannot read kind, name and namespace of a %T: use ApplyConfigurationFrom", obj)
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// applyBody returns the JSON to apply, which is also YAML.
func applyBody(obj runtime.ApplyConfiguration, gvk schema.GroupVersionKind, subresource string) ([]byte, error) {
	o, ok := obj.(objectConfiguration)
	if !ok {
		return json.Marshal(obj)
	}
	if u, ok := o.Object.(runtime.Unstructured); ok && o.verbatim {
		return json.Marshal(u.UnstructuredContent())
	}
	data, err := json.Marshal(o.Object)
	if err != nil {
		return nil, err
	}
	var content map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &content); err != nil {
		return nil, err
	}
	if _, ok := o.Object.(runtime.Unstructured); !ok {
		dropZero(reflect.ValueOf(o.Object), content)
	}
	content["apiVersion"], content["kind"] = gvk.ToAPIVersionAndKind()
	if subresource == "status" {
		meta := map[string]any{"name": o.GetName()}
		if namespace := o.GetNamespace(); namespace != "" {
			meta["namespace"] = namespace
		}
		content = map[string]any{"apiVersion": content["apiVersion"], "kind": content["kind"], "metadata": meta, "status": content["status"]}
	} else {
		delete(content, "status")
	}
	if meta, ok := content["metadata"].(map[string]any); ok {
		for _, name := range serverSet {
			delete(meta, name)
		}
	}
	return json.Marshal(content)
}

// serverSet are the fields of metadata that clients must not set.
var serverSet = []string{"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
	"managedFields", "selfLink"}

// dropZero removes nulls and zero structs from content, the JSON of v. Zero structs are present
// without being set: omitempty does not omit them.
func dropZero(v reflect.Value, content any) {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	switch content := content.(type) {
	case map[string]any:
		switch v.Kind() {
		case reflect.Struct:
			dropZeroFields(v, content)
		case reflect.Map:
			for i := v.MapRange(); i.Next(); {
				if i.Key().Kind() == reflect.String {
					dropZero(i.Value(), content[i.Key().String()])
				}
			}
		}
	case []any:
		if (v.Kind() == reflect.Slice || v.Kind() == reflect.Array) && v.Len() == len(content) {
			for i := range content {
				dropZero(v.Index(i), content[i])
			}
		}
	}
}

func dropZeroFields(v reflect.Value, content map[string]any) {
	if reflect.PointerTo(v.Type()).Implements(reflect.TypeFor[json.Marshaler]()) {
		return // its JSON is not that of its fields
	}
	for i := range v.NumField() {
		field, value := v.Type().Field(i), v.Field(i)
		if !field.IsExported() && !field.Anonymous {
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case name == "" && field.Anonymous:
			dropZero(value, content)
		case name == "":
			name = field.Name
			fallthrough
		default:
			if was, ok := content[name]; ok && (was == nil || value.Kind() == reflect.Struct && value.IsZero()) {
				delete(content, name)
				continue
			}
			dropZero(value, content[name])
		}
	}
}
