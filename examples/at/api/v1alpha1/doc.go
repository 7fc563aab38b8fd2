// Package v1alpha1 is version v1alpha1 of the API group cnat.programming-kubernetes.info, the
// cloud-native at: a command that is run at a time.
//
// The CustomResourceDefinition and the deep copies are generated from the markers and comments of
// the types.
//
// +kubebuilder:object:generate=true
// +groupName=cnat.programming-kubernetes.info
package v1alpha1
