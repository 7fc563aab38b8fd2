// Package v1 is the API of a reader of the documents.
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Foo is a custom resource.
type Foo struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Status struct{ Ready bool }
}

// DeepCopyObject returns a copy.
func (f *Foo) DeepCopyObject() runtime.Object { copied := *f; return &copied }
