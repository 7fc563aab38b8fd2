// Package v1 has a kind with fields of all types.
// +kubebuilder:object:generate=true
// +groupName=shop.example.com
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Order is what a customer wants.
//
// It is delivered once.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=ord
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() < 40",message="the name is too long"
type Order struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What is wanted.
	Spec OrderSpec `json:"spec"`
	// +optional
	Status OrderStatus `json:"status,omitempty"`
}

// OrderSpec is what is wanted.
type OrderSpec struct {
	// The items, at least one.
	// +kubebuilder:validation:MinItems=1
	// +listType=map
	// +listMapKey=name
	Items []Item `json:"items"`
	// How it is sent: "Post" | "Bike".
	// +kubebuilder:validation:Enum=Post;Bike
	// +kubebuilder:default=Bike
	// +optional
	Delivery string `json:"delivery,omitempty"`
	// +kubebuilder:validation:Pattern=`^[A-Z]{2}-\d{3}$`
	// +optional
	Code string `json:"code,omitempty"`
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// +optional
	Due *metav1.Time `json:"due,omitempty"`
	// +optional
	Discount *intstr.IntOrString `json:"discount,omitempty"`
	// +optional
	// +nullable
	Note *string `json:"note,omitempty"`
	// One of two ways to pay.
	// +optional
	Payment *Payment `json:"payment,omitempty"`
	// Where `<from>` and <to> are.
	// +optional
	Route *Route `json:"route,omitempty"`
}

// Item is a thing in an order.
type Item struct {
	// +kubebuilder:validation:MinLength=3
	Name string `json:"name"`
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:validation:MultipleOf=2
	Count int32 `json:"count"`
}

// Payment is exactly one of its fields.
// +kubebuilder:validation:MaxProperties=1
type Payment struct {
	// +optional
	Card string `json:"card,omitempty"`
	// +optional
	Cash bool `json:"cash,omitempty"`
}

// Route is exactly one of its fields.
// +kubebuilder:validation:ExactlyOneOf=street;air
type Route struct {
	// +optional
	Street string `json:"street,omitempty"`
	// +optional
	Air string `json:"air,omitempty"`
}

// OrderStatus is how far it is.
type OrderStatus struct {
	// +optional
	Sent bool `json:"sent,omitempty"`
}
