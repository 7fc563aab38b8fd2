package webhook

import (
	"context"
	"net/http"
	"reflect"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// A Defaulter sets defaults: it changes obj. An error denies the operation: see Validator. It must
// be safe for concurrent use.
type Defaulter[T runtime.Object] interface {
	Default(ctx context.Context, obj T) error
}

// A CustomDefaulter is a Defaulter of any type.
type CustomDefaulter = Defaulter[runtime.Object]

// A DefaulterOption configures how the patch of a Defaulter is computed.
type DefaulterOption func(*defaulterOptions)

type defaulterOptions struct{ removeUnknownOrOmitable bool }

// DefaulterRemoveUnknownOrOmitableFields removes fields that the Go type does not have, and zero
// values that it omits. By default they stay: a webhook that is older than the definition of its
// kind must not drop newer fields.
func DefaulterRemoveUnknownOrOmitableFields(o *defaulterOptions) { o.removeUnknownOrOmitable = true }

// WithDefaulter returns a webhook that calls a Defaulter for every operation except deletions, and
// answers with a patch of its changes. T is a pointer to a struct.
func WithDefaulter[T runtime.Object](scheme *runtime.Scheme, defaulter Defaulter[T], opts ...DefaulterOption) *Webhook {
	return newDefaulting(scheme, defaulter, newOf[T](reflect.TypeFor[T]()), opts)
}

// WithCustomDefaulter is WithDefaulter for a Defaulter of any type, which is called with objects of
// the type of obj.
func WithCustomDefaulter(scheme *runtime.Scheme, obj runtime.Object, defaulter CustomDefaulter, opts ...DefaulterOption) *Webhook {
	return newDefaulting(scheme, defaulter, newOf[runtime.Object](reflect.TypeOf(obj)), opts)
}

// newOf returns a function that returns new objects of a pointer type.
func newOf[T runtime.Object](pointer reflect.Type) func() T {
	return func() T { return reflect.New(pointer.Elem()).Interface().(T) }
}

func newDefaulting[T runtime.Object](scheme *runtime.Scheme, defaulter Defaulter[T], newObject func() T, opts []DefaulterOption) *Webhook {
	d := &defaulting[T]{defaulter: defaulter, decoder: NewDecoder(scheme), newObject: newObject}
	for _, opt := range opts {
		opt(&d.options)
	}
	return &Webhook{Handler: d}
}

type defaulting[T runtime.Object] struct {
	defaulter Defaulter[T]
	decoder   Decoder
	newObject func() T
	options   defaulterOptions
}

func (d *defaulting[T]) Handle(ctx context.Context, req Request) Response {
	if req.Operation == admissionv1.Delete {
		return Allowed("")
	}
	obj := d.newObject()
	if err := d.decoder.Decode(req, obj); err != nil {
		return Errored(http.StatusBadRequest, err)
	}
	before := obj.DeepCopyObject()
	if err := d.defaulter.Default(NewContextWithRequest(ctx, req), obj); err != nil {
		return refused(err)
	}
	var seen any = before
	switch {
	case d.options.removeUnknownOrOmitable:
		seen = req.Object
	case reflect.DeepEqual(before, obj):
		return Response{AdmissionResponse: admissionv1.AdmissionResponse{Allowed: true}}
	}
	patches, err := createTypedPatch(req.Object.Raw, seen, obj)
	if err != nil {
		return Errored(http.StatusInternalServerError, err)
	}
	return patchResponse(patches)
}
