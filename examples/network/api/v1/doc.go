// Package v1 is version v1 of the API group samplecrd.k8s.io.
//
// +kubebuilder:object:generate=true
// +groupName=samplecrd.k8s.io
package v1
