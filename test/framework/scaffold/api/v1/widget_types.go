package v1

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// WidgetSpec is the desired state.
type WidgetSpec struct {
	Size int32 `json:"size,omitempty"`
}

// WidgetStatus is the observed state.
type WidgetStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Widget is something that a shop sells.
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`
	Spec              WidgetSpec   `json:"spec"`
	Status            WidgetStatus `json:"status,omitzero"`
}

// WidgetList is a list of Widgets.
type WidgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []Widget `json:"items"`
}

// DeepCopyObject returns a copy.
func (w *Widget) DeepCopyObject() runtime.Object { return copied(w) }

// DeepCopyObject returns a copy.
func (l *WidgetList) DeepCopyObject() runtime.Object { return copied(l) }

func copied[T any](from *T) *T {
	data, err := json.Marshal(from)
	to := new(T)
	if err == nil {
		err = json.Unmarshal(data, to)
	}
	if err != nil {
		panic(err) // of types that JSON can say
	}
	return to
}

func init() {
	SchemeBuilder.Register(&Widget{}, &WidgetList{})
}
