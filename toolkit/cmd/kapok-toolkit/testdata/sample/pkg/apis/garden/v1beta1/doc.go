// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +k8s:prerelease-lifecycle-gen=true
// +groupName=garden.example.com
// +groupGoName=Garden

// Package v1beta1 is a version of the group.
package v1beta1
