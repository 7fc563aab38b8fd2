// Package v2beta1 has the types of autoscaling/v2beta1, which k8s.io/api no longer contains. The
// annotations of autoscaling/v1 still use its metrics.
package v2beta1

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// SchemeGroupVersion is the version.
var SchemeGroupVersion = schema.GroupVersion{Group: autoscalingv1.GroupName, Version: "v2beta1"}

// HorizontalPodAutoscaler scales a workload.
type HorizontalPodAutoscaler struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              HorizontalPodAutoscalerSpec   `json:"spec,omitempty"`
	Status            HorizontalPodAutoscalerStatus `json:"status,omitempty"`
}

// HorizontalPodAutoscalerSpec has no behavior, which is kept in an annotation.
type HorizontalPodAutoscalerSpec struct {
	ScaleTargetRef autoscalingv1.CrossVersionObjectReference `json:"scaleTargetRef"`
	MinReplicas    *int32                                    `json:"minReplicas,omitempty"`
	MaxReplicas    int32                                     `json:"maxReplicas"`
	Metrics        []autoscalingv1.MetricSpec                `json:"metrics,omitempty"`
}

// HorizontalPodAutoscalerStatus is the status.
type HorizontalPodAutoscalerStatus struct {
	ObservedGeneration *int64                                           `json:"observedGeneration,omitempty"`
	LastScaleTime      *metav1.Time                                     `json:"lastScaleTime,omitempty"`
	CurrentReplicas    int32                                            `json:"currentReplicas"`
	DesiredReplicas    int32                                            `json:"desiredReplicas"`
	CurrentMetrics     []autoscalingv1.MetricStatus                     `json:"currentMetrics"`
	Conditions         []autoscalingv1.HorizontalPodAutoscalerCondition `json:"conditions"`
}

// HorizontalPodAutoscalerList is a list of autoscalers.
type HorizontalPodAutoscalerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []HorizontalPodAutoscaler `json:"items"`
}

// DeepCopyObject returns a copy that shares nothing.
func (in *HorizontalPodAutoscaler) DeepCopyObject() runtime.Object { return in.deepCopy() }

// DeepCopyObject returns a copy that shares nothing.
func (in *HorizontalPodAutoscalerList) DeepCopyObject() runtime.Object {
	out := &HorizontalPodAutoscalerList{TypeMeta: in.TypeMeta}
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	for i := range in.Items {
		out.Items = append(out.Items, *in.Items[i].deepCopy())
	}
	return out
}

func (in *HorizontalPodAutoscaler) deepCopy() *HorizontalPodAutoscaler {
	out := *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.MinReplicas = clone(in.Spec.MinReplicas)
	out.Spec.Metrics, out.Status.CurrentMetrics, out.Status.Conditions = nil, nil, nil
	for i := range in.Spec.Metrics {
		out.Spec.Metrics = append(out.Spec.Metrics, *in.Spec.Metrics[i].DeepCopy())
	}
	out.Status.ObservedGeneration = clone(in.Status.ObservedGeneration)
	out.Status.LastScaleTime = in.Status.LastScaleTime.DeepCopy()
	for i := range in.Status.CurrentMetrics {
		out.Status.CurrentMetrics = append(out.Status.CurrentMetrics, *in.Status.CurrentMetrics[i].DeepCopy())
	}
	for i := range in.Status.Conditions {
		out.Status.Conditions = append(out.Status.Conditions, *in.Status.Conditions[i].DeepCopy())
	}
	return &out
}

// clone returns a pointer to a shallow copy.
func clone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	value := *p
	return &value
}
