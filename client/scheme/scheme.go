// Package scheme registers the Go types of a group and version with a runtime.Scheme.
//
//	var (
//		GroupVersion  = schema.GroupVersion{Group: "batch.example.com", Version: "v1"}
//		SchemeBuilder = &scheme.Builder{GroupVersion: GroupVersion}
//		AddToScheme   = SchemeBuilder.AddToScheme
//	)
//
//	func init() { SchemeBuilder.Register(&CronJob{}, &CronJobList{}) }
package scheme

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Builder has the types of a group and version. It is not safe for concurrent use.
type Builder struct {
	GroupVersion schema.GroupVersion
	runtime.SchemeBuilder
}

// Register adds types, whose kinds are the names of the Go types.
func (b *Builder) Register(objects ...runtime.Object) *Builder {
	b.SchemeBuilder.Register(func(s *runtime.Scheme) error {
		s.AddKnownTypes(b.GroupVersion, objects...)
		metav1.AddToGroupVersion(s, b.GroupVersion)
		return nil
	})
	return b
}

// RegisterAll adds the types of another Builder.
func (b *Builder) RegisterAll(other *Builder) *Builder {
	b.SchemeBuilder = append(b.SchemeBuilder, other.SchemeBuilder...)
	return b
}

// AddToScheme registers the types with a Scheme.
func (b *Builder) AddToScheme(s *runtime.Scheme) error { return b.SchemeBuilder.AddToScheme(s) }

// Build returns a new Scheme with the types.
func (b *Builder) Build() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	return s, b.AddToScheme(s)
}
