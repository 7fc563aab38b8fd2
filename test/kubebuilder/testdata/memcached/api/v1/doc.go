// Package v1 is version v1 of the API group cache.example.com.
//
// +kubebuilder:object:generate=true
// +groupName=cache.example.com
package v1
