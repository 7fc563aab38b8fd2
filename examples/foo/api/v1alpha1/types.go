package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Foo has a Deployment of its own.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="api-approved.kubernetes.io=unapproved, an example that is not of the Kubernetes project"
// +kubebuilder:printcolumn:name="Deployment",type=string,JSONPath=".spec.deploymentName"
// +kubebuilder:printcolumn:name="Wanted",type=integer,JSONPath=".spec.replicas"
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=".status.availableReplicas"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
type Foo struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the Deployment that is wanted.
	Spec FooSpec `json:"spec"`
	// Status is what the Deployment has come to.
	//
	// +kubebuilder:default={availableReplicas: 0}
	Status FooStatus `json:"status,omitempty"`
}

// A FooSpec says which Deployment a Foo has.
type FooSpec struct {
	// DeploymentName is the name of the Deployment, in the namespace of the Foo.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	DeploymentName string `json:"deploymentName"`
	// Replicas is how many Pods the Deployment is to have. Without it, the Deployment may have as many as it has; it begins with one.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`
}

// A FooStatus is what was last seen of the Deployment of a Foo.
type FooStatus struct {
	// AvailableReplicas is how many Pods of the Deployment are available.
	//
	// +optional
	AvailableReplicas int32 `json:"availableReplicas"`
}

// A FooList is a list of Foos.
//
// +kubebuilder:object:root=true
type FooList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Foo `json:"items"`
}
