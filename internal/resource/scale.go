package resource

import (
	"context"
	"fmt"
	"math"

	"github.com/kapok-dev/kapok/internal/causes"
	"github.com/kapok-dev/kapok/internal/fields"
	"github.com/kapok-dev/kapok/internal/object"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/json"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// The scale subresource shows an object as an autoscaling/v1 Scale. Only the
// replicas are written through it.
const scaleSubresource = "scale"

var scaleKind = schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}

// unsetReplicas stands for the replicas of an object that has none while a patch is applied to its
// Scale.
const unsetReplicas = math.MinInt32

func (s *Store) getScale(r *Request, o *object.Object) (Result, error) {
	obj, err := TreeOf(r.Definition, r.Version, o)
	if err != nil {
		return Result{}, err
	}
	scale, found, err := scaleOf(r.Version.Scale, obj)
	if err != nil {
		return Result{}, err
	}
	if !found {
		return Result{}, apierrors.NewInternalError(fmt.Errorf("the spec replicas field %q does not exist", joinPath(r.Version.Scale.Replicas)))
	}
	return Result{Tree: scale}, nil
}

func joinPath(keys []string) (p string) {
	for _, k := range keys {
		p += "." + k
	}
	return p
}

// scaleOf returns the Scale of an object. found reports whether the object has a field with its
// wanted replicas.
func scaleOf(s *Scale, obj Tree) (scale Tree, found bool, err error) {
	replicas, found, err := unstructured.NestedInt64(obj, s.Replicas...)
	if err != nil {
		return nil, false, err
	}
	current, _, err := unstructured.NestedInt64(obj, s.StatusReplicas...)
	if err != nil {
		return nil, false, err
	}
	selector := ""
	switch {
	case s.SelectorOf != nil:
		selector = s.SelectorOf(obj)
	case len(s.Selector) > 0:
		if selector, _, err = unstructured.NestedString(obj, s.Selector...); err != nil {
			return nil, false, err
		}
	}
	meta := Tree{}
	for _, key := range []string{"name", "namespace", "uid", "resourceVersion", "creationTimestamp"} {
		if v, ok := metadata(obj)[key]; ok {
			meta[key] = v
		}
	}
	status := Tree{"replicas": current}
	if selector != "" {
		status["selector"] = selector
	}
	spec := Tree{}
	if replicas != 0 {
		spec["replicas"] = replicas
	}
	return Tree{
		"apiVersion": scaleKind.GroupVersion().String(),
		"kind":       scaleKind.Kind,
		"metadata":   meta,
		"spec":       spec,
		"status":     status,
	}, found, nil
}

// writeScale changes an object through its Scale. next returns the new Scale for the live one.
func (s *Store) writeScale(ctx context.Context, r *Request, uid string, next func(Tree) (Tree, error)) (Result, error) {
	result, err := s.change(ctx, r, change{uid: uid, next: next, view: r.scaleToWrite, put: r.putScale})
	if err != nil {
		return Result{}, err
	}
	obj, err := TreeOf(r.Definition, r.Version, result.Object)
	if err != nil {
		return Result{}, err
	}
	scale, _, err := scaleOf(r.Version.Scale, obj)
	if err != nil {
		return Result{}, apierrors.NewBadRequest(err.Error())
	}
	return Result{Tree: scale}, nil
}

// scaleToWrite returns the Scale of an object with the managedFields of its replicas.
func (r *Request) scaleToWrite(obj Tree) (Tree, error) {
	scale, found, err := scaleOf(r.Version.Scale, obj)
	if err != nil {
		return nil, err
	}
	if !found {
		scale["spec"] = Tree{"replicas": int64(unsetReplicas)}
	}
	entries, err := r.scaleFields(obj).ToSubresource()
	if err != nil {
		return nil, err
	}
	accessor(scale).SetManagedFields(entries)
	return scale, nil
}

func (r *Request) scaleFields(obj Tree) *managedfields.ScaleHandler {
	return managedfields.NewScaleHandler(managedFieldsOf(obj),
		r.Definition.GroupVersionKind(r.Version).GroupVersion(), r.Definition.replicasPaths())
}

// putScale writes a Scale into its object.
func (r *Request) putScale(obj, scale Tree) (Tree, error) {
	view := r.Version.Scale
	if err := ensureName(r, scale); err != nil {
		return nil, err
	}
	replicas, _, err := unstructured.NestedInt64(scale, "spec", "replicas")
	if err != nil {
		return nil, err
	}
	if replicas == unsetReplicas {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the spec replicas field %q cannot be empty", joinPath(view.Replicas)))
	}
	if replicas < 0 && !r.Definition.Custom {
		return nil, causes.Invalid(scaleKind.GroupKind(), r.Name, field.ErrorList{
			field.Invalid(field.NewPath("spec", "replicas"), replicas, "must be greater than or equal to 0").WithOrigin("minimum"),
		})
	}
	entries, err := r.scaleFields(obj).ToParent(managedFieldsOf(scale))
	if err != nil {
		return nil, err
	}
	if err := unstructured.SetNestedField(obj, replicas, view.Replicas...); err != nil {
		return nil, err
	}
	if rv := metaString(scale, "resourceVersion"); rv != "" {
		metadata(obj)["resourceVersion"] = rv
	}
	accessor(obj).SetManagedFields(entries)
	return obj, nil
}

// replicasPaths returns for each version the path of its replicas.
func (d *Definition) replicasPaths() managedfields.ResourcePathMappings {
	paths := managedfields.ResourcePathMappings{}
	for _, v := range d.Versions {
		paths[d.APIVersion(v)] = nil
		if v.Scale != nil {
			keys := make([]any, len(v.Scale.Replicas))
			for i, k := range v.Scale.Replicas {
				keys[i] = k
			}
			paths[d.APIVersion(v)] = fieldpath.MakePathOrDie(keys...)
		}
	}
	return paths
}

func newScaleManager() (*fields.Manager, error) {
	return fields.New(fields.Options{
		Kind:        scaleKind,
		Subresource: scaleSubresource,
		Type: func(gvk schema.GroupVersionKind) *fields.Type {
			if gvk == scaleKind {
				return fields.Deduced()
			}
			return nil
		},
		New: func() Tree { return blank(scaleModel{}) },
	})
}

// scaleModel is the model of the Scale itself.
type scaleModel struct{ Model }

// FieldTypes knows no types, as in Kubernetes for a Scale that is validated on its own.
func (scaleModel) FieldTypes() (func(schema.GroupVersionKind) *fields.Type, error) {
	return func(schema.GroupVersionKind) *fields.Type { return nil }, nil
}

func (m scaleModel) Decode(data []byte, strict *[]error) (Tree, error) {
	var scale autoscalingv1.Scale
	errs, err := json.UnmarshalStrict(data, &scale)
	if err != nil {
		return nil, err
	}
	if strict != nil {
		*strict = append(*strict, errs...)
	}
	scale.APIVersion, scale.Kind = scaleKind.ToAPIVersionAndKind()
	return runtime.DefaultUnstructuredConverter.ToUnstructured(&scale)
}

func (m scaleModel) Normalise(obj Tree, _ *[]error) (Tree, error) {
	var scale autoscalingv1.Scale
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj, &scale); err != nil {
		return nil, err
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(&scale)
}

func (scaleModel) PatchMeta() strategicpatch.LookupPatchMeta {
	meta, err := strategicpatch.NewPatchMetaFromStruct(&autoscalingv1.Scale{})
	if err != nil {
		return nil
	}
	return meta
}

func (scaleModel) New() runtime.Object { return &autoscalingv1.Scale{} }
