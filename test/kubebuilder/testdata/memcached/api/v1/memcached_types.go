package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// MemcachedSpec is what is wanted of a Memcached.
type MemcachedSpec struct {
	// How many instances run.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=5
	// +kubebuilder:validation:ExclusiveMaximum=false
	// +kubebuilder:default=1
	// +optional
	Size *int32 `json:"size,omitempty"`

	// The port at which each listens.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:default=11211
	// +optional
	Port int32 `json:"port,omitempty"`
}

// MemcachedStatus is what the controller has seen of the Deployment of a Memcached.
type MemcachedStatus struct {
	// How many instances are ready.
	// +optional
	Ready int32 `json:"ready"`

	// How it is: Available says whether all instances are ready, Degraded that it is about to go.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Memcached is a Deployment of memcached.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].status`
type Memcached struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   MemcachedSpec   `json:"spec,omitzero"`
	Status MemcachedStatus `json:"status,omitzero"`
}

// MemcachedList is a list of Memcacheds.
// +kubebuilder:object:root=true
type MemcachedList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []Memcached `json:"items"`
}
