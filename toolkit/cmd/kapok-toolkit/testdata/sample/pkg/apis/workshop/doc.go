// +k8s:deepcopy-gen=package
// +groupName=workshop.example.com

// Package workshop has the internal version of the group.
package workshop

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	SchemeGroupVersion = schema.GroupVersion{Group: "workshop.example.com", Version: runtime.APIVersionInternal}
	SchemeBuilder      = runtime.NewSchemeBuilder(addKnownTypes)
	AddToScheme        = SchemeBuilder.AddToScheme
)

func addKnownTypes(s *runtime.Scheme) error {
	s.AddKnownTypes(SchemeGroupVersion, &Lathe{}, &LatheList{})
	return nil
}

// A Lathe turns.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type Lathe struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	Spec   LatheSpec
	Status LatheStatus
}

type LatheSpec struct {
	Speed  int32
	Tools  map[string]Tool
	Labels []string
}

type Tool struct {
	Width *int32
	Args  []string
}

type LatheStatus struct {
	Turned int64
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type LatheList struct {
	metav1.TypeMeta
	metav1.ListMeta

	Items []Lathe
}
