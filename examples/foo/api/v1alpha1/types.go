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

	// Spec is the desired state of the Deployment.
	Spec FooSpec `json:"spec"`
	// Status is the observed state of the Deployment.
	//
	// +kubebuilder:default={availableReplicas: 0}
	Status FooStatus `json:"status,omitempty"`
}

// A FooSpec describes the Deployment of a Foo.
type FooSpec struct {
	// DeploymentName is the name of the Deployment, in the namespace of the Foo.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	DeploymentName string `json:"deploymentName"`
	// Replicas is the desired number of Pods. If unset, the Deployment is created with one, and its
	// number of Pods is not changed afterwards.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`
}

// A FooStatus is the last observed state of the Deployment of a Foo.
type FooStatus struct {
	// AvailableReplicas is the number of available Pods of the Deployment.
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
