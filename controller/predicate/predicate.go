package predicate

import (
	"fmt"
	"maps"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller/handler"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

type (
	// A Predicate is a TypedPredicate of objects of any kind.
	Predicate = TypedPredicate[client.Object]
	// Funcs is a Predicate of functions. A nil function passes everything.
	Funcs = TypedFuncs[client.Object]
)

// A TypedPredicate reports whether an event is to be handled. It must not change the objects.
type TypedPredicate[object any] interface {
	// Create reports whether to handle an object that is new, or existed at the start.
	Create(handler.TypedCreateEvent[object]) bool
	// Update reports whether to handle a change or a resync.
	Update(handler.TypedUpdateEvent[object]) bool
	// Delete reports whether to handle a deletion.
	Delete(handler.TypedDeleteEvent[object]) bool
	// Generic reports whether to handle an event from outside of the cluster.
	Generic(handler.TypedGenericEvent[object]) bool
}

// TypedFuncs is a TypedPredicate of functions. A nil function passes everything.
type TypedFuncs[object any] struct {
	CreateFunc  func(handler.TypedCreateEvent[object]) bool
	UpdateFunc  func(handler.TypedUpdateEvent[object]) bool
	DeleteFunc  func(handler.TypedDeleteEvent[object]) bool
	GenericFunc func(handler.TypedGenericEvent[object]) bool
}

// Create implements TypedPredicate.
func (f TypedFuncs[object]) Create(e handler.TypedCreateEvent[object]) bool {
	return f.CreateFunc == nil || f.CreateFunc(e)
}

// Update implements TypedPredicate.
func (f TypedFuncs[object]) Update(e handler.TypedUpdateEvent[object]) bool {
	return f.UpdateFunc == nil || f.UpdateFunc(e)
}

// Delete implements TypedPredicate.
func (f TypedFuncs[object]) Delete(e handler.TypedDeleteEvent[object]) bool {
	return f.DeleteFunc == nil || f.DeleteFunc(e)
}

// Generic implements TypedPredicate.
func (f TypedFuncs[object]) Generic(e handler.TypedGenericEvent[object]) bool {
	return f.GenericFunc == nil || f.GenericFunc(e)
}

// NewPredicateFuncs returns a Predicate that calls a function with the object of each event, the
// new one of an update.
func NewPredicateFuncs(filter func(client.Object) bool) Funcs {
	return NewTypedPredicateFuncs(filter)
}

// NewTypedPredicateFuncs is NewPredicateFuncs for objects of one type.
func NewTypedPredicateFuncs[object any](filter func(object) bool) TypedFuncs[object] {
	return TypedFuncs[object]{
		CreateFunc:  func(e handler.TypedCreateEvent[object]) bool { return filter(e.Object) },
		UpdateFunc:  func(e handler.TypedUpdateEvent[object]) bool { return filter(e.ObjectNew) },
		DeleteFunc:  func(e handler.TypedDeleteEvent[object]) bool { return filter(e.Object) },
		GenericFunc: func(e handler.TypedGenericEvent[object]) bool { return filter(e.Object) },
	}
}

// LabelSelectorPredicate returns a Predicate that passes objects that a selector matches.
func LabelSelectorPredicate(s metav1.LabelSelector) (Predicate, error) {
	selector, err := metav1.LabelSelectorAsSelector(&s)
	if err != nil {
		return nil, fmt.Errorf("label selector of a predicate: %w", err)
	}
	return labelled{NewPredicateFuncs(func(o client.Object) bool { return selector.Matches(labels.Set(o.GetLabels())) })}, nil
}

type labelled struct{ Funcs }

// MetadataOnly reports that the metadata of objects is enough.
func (labelled) MetadataOnly() bool { return true }

// MetadataOnly reports that the metadata of objects is enough: without a function, as a function
// may want more.
func (f TypedFuncs[object]) MetadataOnly() bool {
	return f.CreateFunc == nil && f.UpdateFunc == nil && f.DeleteFunc == nil && f.GenericFunc == nil
}

type (
	// ResourceVersionChangedPredicate refuses updates that change nothing: those of resyncs.
	ResourceVersionChangedPredicate = TypedResourceVersionChangedPredicate[client.Object]
	// GenerationChangedPredicate refuses updates that leave metadata.generation as it is. For a
	// custom kind with a status subresource the generation counts the changes of everything but
	// metadata and status; built-in kinds have rules of their own, and some no generation at all. A
	// controller that uses it does not see changes of the status, or of labels.
	GenerationChangedPredicate = TypedGenerationChangedPredicate[client.Object]
	// AnnotationChangedPredicate refuses updates that leave the annotations as they are.
	AnnotationChangedPredicate = TypedAnnotationChangedPredicate[client.Object]
	// LabelChangedPredicate refuses updates that leave the labels as they are.
	LabelChangedPredicate = TypedLabelChangedPredicate[client.Object]
)

// TypedResourceVersionChangedPredicate is ResourceVersionChangedPredicate for objects of one type.
type TypedResourceVersionChangedPredicate[object metav1.Object] struct{ TypedFuncs[object] }

// Update implements TypedPredicate.
func (TypedResourceVersionChangedPredicate[object]) Update(e handler.TypedUpdateEvent[object]) bool {
	return e.ObjectNew.GetResourceVersion() != e.ObjectOld.GetResourceVersion()
}

// TypedGenerationChangedPredicate is GenerationChangedPredicate for objects of one type.
type TypedGenerationChangedPredicate[object metav1.Object] struct{ TypedFuncs[object] }

// Update implements TypedPredicate.
func (TypedGenerationChangedPredicate[object]) Update(e handler.TypedUpdateEvent[object]) bool {
	return e.ObjectNew.GetGeneration() != e.ObjectOld.GetGeneration()
}

// TypedAnnotationChangedPredicate is AnnotationChangedPredicate for objects of one type.
type TypedAnnotationChangedPredicate[object metav1.Object] struct{ TypedFuncs[object] }

// Update implements TypedPredicate.
func (TypedAnnotationChangedPredicate[object]) Update(e handler.TypedUpdateEvent[object]) bool {
	return !maps.Equal(e.ObjectNew.GetAnnotations(), e.ObjectOld.GetAnnotations())
}

// TypedLabelChangedPredicate is LabelChangedPredicate for objects of one type.
type TypedLabelChangedPredicate[object metav1.Object] struct{ TypedFuncs[object] }

// Update implements TypedPredicate.
func (TypedLabelChangedPredicate[object]) Update(e handler.TypedUpdateEvent[object]) bool {
	return !maps.Equal(e.ObjectNew.GetLabels(), e.ObjectOld.GetLabels())
}
