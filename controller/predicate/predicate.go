package predicate

import (
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller/handler"
)

// A Predicate says which events are handled. It must not change their objects.
type Predicate interface {
	Create(handler.CreateEvent) bool
	Update(handler.UpdateEvent) bool
	Delete(handler.DeleteEvent) bool
	Generic(handler.GenericEvent) bool
}

// Funcs is a Predicate of functions. What is nil lets everything pass.
type Funcs struct {
	CreateFunc  func(handler.CreateEvent) bool
	UpdateFunc  func(handler.UpdateEvent) bool
	DeleteFunc  func(handler.DeleteEvent) bool
	GenericFunc func(handler.GenericEvent) bool
}

// Create implements Predicate.
func (f Funcs) Create(e handler.CreateEvent) bool { return f.CreateFunc == nil || f.CreateFunc(e) }

// Update implements Predicate.
func (f Funcs) Update(e handler.UpdateEvent) bool { return f.UpdateFunc == nil || f.UpdateFunc(e) }

// Delete implements Predicate.
func (f Funcs) Delete(e handler.DeleteEvent) bool { return f.DeleteFunc == nil || f.DeleteFunc(e) }

// Generic implements Predicate.
func (f Funcs) Generic(e handler.GenericEvent) bool { return f.GenericFunc == nil || f.GenericFunc(e) }

// NewPredicateFuncs makes a Predicate that asks a function about the object of each event, the new one of an update.
func NewPredicateFuncs(filter func(client.Object) bool) Funcs {
	return Funcs{
		CreateFunc:  func(e handler.CreateEvent) bool { return filter(e.Object) },
		UpdateFunc:  func(e handler.UpdateEvent) bool { return filter(e.ObjectNew) },
		DeleteFunc:  func(e handler.DeleteEvent) bool { return filter(e.Object) },
		GenericFunc: func(e handler.GenericEvent) bool { return filter(e.Object) },
	}
}

// LabelSelectorPredicate makes a Predicate that lets objects pass that a selector matches.
func LabelSelectorPredicate(s metav1.LabelSelector) (Predicate, error) {
	selector, err := metav1.LabelSelectorAsSelector(&s)
	if err != nil {
		return nil, fmt.Errorf("label selector of a predicate: %w", err)
	}
	return labelled{NewPredicateFuncs(func(o client.Object) bool { return selector.Matches(labels.Set(o.GetLabels())) })}, nil
}

type labelled struct{ Funcs }

// MetadataOnly says that the metadata of objects is enough.
func (labelled) MetadataOnly() bool { return true }

// MetadataOnly says that the metadata of objects is enough: if there is no function, which may want more.
func (f Funcs) MetadataOnly() bool {
	return f.CreateFunc == nil && f.UpdateFunc == nil && f.DeleteFunc == nil && f.GenericFunc == nil
}

// ResourceVersionChangedPredicate refuses updates that change nothing: those of resyncs.
type ResourceVersionChangedPredicate struct{ Funcs }

// Update implements Predicate.
func (ResourceVersionChangedPredicate) Update(e handler.UpdateEvent) bool {
	return e.ObjectNew.GetResourceVersion() != e.ObjectOld.GetResourceVersion()
}

// GenerationChangedPredicate refuses updates that leave metadata.generation as it is. For a custom kind with a status
// subresource the generation counts the changes of everything but metadata and status; built-in kinds have rules of their own, and some no
// generation at all. A controller that uses it does not see that others have changed the status, or labels.
type GenerationChangedPredicate struct{ Funcs }

// Update implements Predicate.
func (GenerationChangedPredicate) Update(e handler.UpdateEvent) bool {
	return e.ObjectNew.GetGeneration() != e.ObjectOld.GetGeneration()
}

// AnnotationChangedPredicate refuses updates that leave the annotations as they are.
type AnnotationChangedPredicate struct{ Funcs }

// Update implements Predicate.
func (AnnotationChangedPredicate) Update(e handler.UpdateEvent) bool {
	return !maps.Equal(e.ObjectNew.GetAnnotations(), e.ObjectOld.GetAnnotations())
}

// LabelChangedPredicate refuses updates that leave the labels as they are.
type LabelChangedPredicate struct{ Funcs }

// Update implements Predicate.
func (LabelChangedPredicate) Update(e handler.UpdateEvent) bool {
	return !maps.Equal(e.ObjectNew.GetLabels(), e.ObjectOld.GetLabels())
}
