// Package v1alpha1 is version v1alpha1 of the API group samplecontroller.k8s.io.
//
// +kubebuilder:object:generate=true
// +groupName=samplecontroller.k8s.io
package v1alpha1
