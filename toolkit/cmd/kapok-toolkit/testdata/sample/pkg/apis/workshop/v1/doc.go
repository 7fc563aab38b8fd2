// +k8s:deepcopy-gen=package
// +k8s:defaulter-gen=TypeMeta
// +k8s:conversion-gen=example.com/sample/pkg/apis/workshop
// +k8s:openapi-gen=true
// +groupName=workshop.example.com

// Package v1 is a version of the group.
package v1
