package autoscaling

import (
	"reflect"

	"github.com/kapok-dev/kapok/internal/kinds/autoscaling/v2beta1"
	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/resource"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kinds returns the kinds of group autoscaling.
func Kinds() []kind.Row {
	v2 := autoscalingv2.SchemeGroupVersion
	beta2 := schema.GroupVersion{Group: v2.Group, Version: "v2beta2"} // the fields are those of v2
	return []kind.Row{
		kind.Kind[*autoscalingv2.HorizontalPodAutoscaler]{
			Version:    v2,
			Plural:     "horizontalpodautoscalers",
			ShortNames: []string{"hpa"},
			Categories: []string{"all"},
			Filled:     true,
			Validate:   validateHorizontalPodAutoscaler,
			Status: &kind.Status[*autoscalingv2.HorizontalPodAutoscaler]{
				Validate: validateHorizontalPodAutoscalerStatus,
				Prepare:  func(obj, old resource.Tree) { keepAnnotations(obj, old, autoscalerSpecAnnotations()) },
			},
			PrepareCreate: func(obj resource.Tree) {
				dropAnnotations(obj)
				keepAnnotations(obj, nil, autoscalerStatusAnnotations())
				kind.Put(obj, int64(1), "metadata", "generation")
			},
			Table: horizontalPodAutoscalersTable(),
			Also: []kind.Another[*autoscalingv2.HorizontalPodAutoscaler]{
				kind.In[*autoscalingv2.HorizontalPodAutoscaler, *autoscalingv1.HorizontalPodAutoscaler](autoscalingv1.SchemeGroupVersion),
			},
			Retired: []kind.Another[*autoscalingv2.HorizontalPodAutoscaler]{
				warning(kind.In[*autoscalingv2.HorizontalPodAutoscaler, *autoscalingv2.HorizontalPodAutoscaler](beta2),
					"autoscaling/v2beta2 HorizontalPodAutoscaler is deprecated in v1.23+, unavailable in v1.26+; use autoscaling/v2 HorizontalPodAutoscaler"),
				warning(kind.In[*autoscalingv2.HorizontalPodAutoscaler, *v2beta1.HorizontalPodAutoscaler](v2beta1.SchemeGroupVersion),
					"autoscaling/v2beta1 HorizontalPodAutoscaler is deprecated in v1.22+, unavailable in v1.25+; use autoscaling/v2 HorizontalPodAutoscaler"),
			},
		}.RowWith(func(k *kind.Kind[*autoscalingv2.HorizontalPodAutoscaler], all kind.Versioning) {
			k.PrepareUpdate = func(obj, old resource.Tree) {
				dropAnnotations(obj)
				keepAnnotations(obj, old, autoscalerStatusAnnotations())
				countAutoscaler(all, obj, old)
			}
		}),
	}
}

// warning sets the deprecation warning of a version that k8s.io/api does not know as deprecated.
func warning[P runtime.Object](a kind.Another[P], words string) kind.Another[P] {
	version := a.Version
	a.Version = func(k kind.Kind[P], all kind.Versioning, stored *resource.Version, views []kind.Subresource[P]) *resource.Version {
		v := version(k, all, stored, views)
		v.Warning = words
		return v
	}
	return a
}

// countAutoscaler increments the generation when the spec changes in the storage version: old
// versions keep parts of the spec in annotations and leave out defaults.
func countAutoscaler(all kind.Versioning, obj, old resource.Tree) {
	generation, _ := kind.Get(old, "metadata", "generation").(int64)
	kind.Keep(obj, old, "metadata", "generation")
	if !reflect.DeepEqual(autoscalerSpec(all, obj), autoscalerSpec(all, old)) {
		kind.Put(obj, generation+1, "metadata", "generation")
	}
}

func autoscalerSpec(all kind.Versioning, obj resource.Tree) any {
	if kind.Text(obj, "apiVersion") == autoscalingv2.SchemeGroupVersion.String() {
		return obj["spec"]
	}
	stored := runtime.DeepCopyJSON(obj)
	if all.Change(stored, autoscalingv2.SchemeGroupVersion) != nil {
		return obj["spec"] // every served object can be converted
	}
	return stored["spec"]
}

// dropAnnotations removes annotations that stand for fields from versions that have the fields.
func dropAnnotations(obj resource.Tree) {
	if version := kind.Text(obj, "apiVersion"); version == "autoscaling/v2" || version == "autoscaling/v2beta2" {
		keepAnnotations(obj, nil, autoscalerSpecAnnotations())
	}
}

// keepAnnotations restores annotations that stand for fields of the spec or status, so that they
// change only in writes that change such fields.
func keepAnnotations(obj, old resource.Tree, keys []string) {
	for _, key := range keys {
		kind.Keep(obj, old, "metadata", "annotations", key)
	}
	if annotations, ok := kind.Get(obj, "metadata", "annotations").(resource.Tree); ok && len(annotations) == 0 {
		kind.Drop(obj, "metadata", "annotations")
	}
}
