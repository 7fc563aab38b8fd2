package builtin

import (
	"reflect"

	"github.com/kapok-dev/kapok/internal/builtin/autoscaling/v2beta1"
	"github.com/kapok-dev/kapok/internal/builtin/tables"
	"github.com/kapok-dev/kapok/internal/builtin/validation"
	"github.com/kapok-dev/kapok/internal/builtin/versions"
	"github.com/kapok-dev/kapok/internal/resource"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// autoscaling has group autoscaling.
func autoscaling() []row {
	v2 := autoscalingv2.SchemeGroupVersion
	beta2 := schema.GroupVersion{Group: v2.Group, Version: "v2beta2"} // v2 by another name
	return []row{
		kind[autoscalingv2.HorizontalPodAutoscaler]{
			version:    v2,
			plural:     "horizontalpodautoscalers",
			shortNames: []string{"hpa"},
			categories: []string{"all"},
			defaults:   fill[autoscalingv2.HorizontalPodAutoscaler],
			validate:   validation.HorizontalPodAutoscaler,
			status: &status[autoscalingv2.HorizontalPodAutoscaler]{
				validate: validation.HorizontalPodAutoscalerStatus,
				prepare:  func(obj, old resource.Tree) { keepAnnotations(obj, old, versions.AutoscalerSpecAnnotations()) },
			},
			prepareCreate: func(obj resource.Tree) {
				dropAnnotations(obj)
				keepAnnotations(obj, nil, versions.AutoscalerStatusAnnotations())
				put(obj, int64(1), "metadata", "generation")
			},
			prepareUpdate: func(obj, old resource.Tree) {
				dropAnnotations(obj)
				keepAnnotations(obj, old, versions.AutoscalerStatusAnnotations())
				countAutoscaler(obj, old)
			},
			table: tables.HorizontalPodAutoscalers(),
			also: []another[autoscalingv2.HorizontalPodAutoscaler]{
				in[autoscalingv2.HorizontalPodAutoscaler, autoscalingv1.HorizontalPodAutoscaler](autoscalingv1.SchemeGroupVersion),
			},
			retired: []another[autoscalingv2.HorizontalPodAutoscaler]{
				warning(in[autoscalingv2.HorizontalPodAutoscaler, autoscalingv2.HorizontalPodAutoscaler](beta2),
					"autoscaling/v2beta2 HorizontalPodAutoscaler is deprecated in v1.23+, unavailable in v1.26+; use autoscaling/v2 HorizontalPodAutoscaler"),
				warning(in[autoscalingv2.HorizontalPodAutoscaler, v2beta1.HorizontalPodAutoscaler](v2beta1.SchemeGroupVersion),
					"autoscaling/v2beta1 HorizontalPodAutoscaler is deprecated in v1.22+, unavailable in v1.25+; use autoscaling/v2 HorizontalPodAutoscaler"),
			},
		}.row(),
	}
}

// warning says what clients are told of a version of whose end k8s.io/api knows nothing.
func warning[T any](a another[T], words string) another[T] {
	version := a.version
	a.version = func(k kind[T], stored *resource.Version, views []subresource[T]) *resource.Version {
		v := version(k, stored, views)
		v.Warning = words
		return v
	}
	return a
}

// countAutoscaler counts changes of the spec as it is stored: an old version says parts
// of it in annotations, and leaves open what is known all the same.
func countAutoscaler(obj, old resource.Tree) {
	generation, _ := get(old, "metadata", "generation").(int64)
	keep(obj, old, "metadata", "generation")
	if !reflect.DeepEqual(autoscalerSpec(obj), autoscalerSpec(old)) {
		put(obj, generation+1, "metadata", "generation")
	}
}

func autoscalerSpec(obj resource.Tree) any {
	if text(obj, "apiVersion") == autoscalingv2.SchemeGroupVersion.String() {
		return obj["spec"]
	}
	stored := runtime.DeepCopyJSON(obj)
	if convert(stored, autoscalingv2.SchemeGroupVersion) != nil {
		return obj["spec"] // what is served can be converted
	}
	return stored["spec"]
}

// dropAnnotations takes from the versions that have the fields what stands for fields.
func dropAnnotations(obj resource.Tree) {
	if version := text(obj, "apiVersion"); version == "autoscaling/v2" || version == "autoscaling/v2beta2" {
		keepAnnotations(obj, nil, versions.AutoscalerSpecAnnotations())
	}
}

// keepAnnotations puts back annotations. Old versions have them for want of fields,
// of the spec and of the status, and they are written as these are.
func keepAnnotations(obj, old resource.Tree, keys []string) {
	for _, key := range keys {
		keep(obj, old, "metadata", "annotations", key)
	}
	if annotations, ok := get(obj, "metadata", "annotations").(resource.Tree); ok && len(annotations) == 0 {
		drop(obj, "metadata", "annotations")
	}
}
