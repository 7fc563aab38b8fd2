// Package v1 is version v1 of the API group batch.tutorial.kubebuilder.io: the CronJob of the
// kubebuilder tutorial.
//
// What the server checks by itself, and what a field means to users, is in the markers and comments
// of the types: the CustomResourceDefinition and the deep copies are generated from them.
//
// +kubebuilder:object:generate=true
// +groupName=batch.tutorial.kubebuilder.io
package v1
