package webhook

import (
	"context"
	"fmt"
	"net/http"
	"reflect"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Warnings are returned to the client of the API server, for admitted and denied operations.
type Warnings []string

// A Validator admits an operation, or denies it with an error. An error of
// k8s.io/apimachinery/pkg/api/errors, wrapped or not, reaches the client with its code, reason and
// details; any other error is 403 Forbidden with its message. It must be safe for concurrent use.
type Validator[T runtime.Object] interface {
	// ValidateCreate gets the object to be created.
	ValidateCreate(ctx context.Context, obj T) (Warnings, error)
	// ValidateUpdate gets the stored object, and the one that replaces it.
	ValidateUpdate(ctx context.Context, oldObj, newObj T) (Warnings, error)
	// ValidateDelete gets the object to be deleted.
	ValidateDelete(ctx context.Context, obj T) (Warnings, error)
}

// A CustomValidator is a Validator of any type.
type CustomValidator = Validator[runtime.Object]

// WithValidator returns a webhook that calls a Validator. T is a pointer to a struct.
func WithValidator[T runtime.Object](scheme *runtime.Scheme, validator Validator[T]) *Webhook {
	return newValidating(scheme, validator, newOf[T](reflect.TypeFor[T]()))
}

// WithCustomValidator is WithValidator for a Validator of any type, which is called with objects of
// the type of obj.
func WithCustomValidator(scheme *runtime.Scheme, obj runtime.Object, validator CustomValidator) *Webhook {
	return newValidating(scheme, validator, newOf[runtime.Object](reflect.TypeOf(obj)))
}

func newValidating[T runtime.Object](scheme *runtime.Scheme, validator Validator[T], newObject func() T) *Webhook {
	return &Webhook{Handler: &validating[T]{validator: validator, decoder: NewDecoder(scheme), newObject: newObject}}
}

type validating[T runtime.Object] struct {
	validator Validator[T]
	decoder   Decoder
	newObject func() T
}

func (v *validating[T]) Handle(ctx context.Context, req Request) Response {
	ctx = NewContextWithRequest(ctx, req)
	obj, old := v.newObject(), v.newObject()
	var warnings Warnings
	var err error
	switch req.Operation {
	case admissionv1.Connect:
	case admissionv1.Create:
		if err := v.decoder.Decode(req, obj); err != nil {
			return Errored(http.StatusBadRequest, err)
		}
		warnings, err = v.validator.ValidateCreate(ctx, obj)
	case admissionv1.Update:
		if err := v.decoder.Decode(req, obj); err != nil {
			return Errored(http.StatusBadRequest, err)
		}
		if err := v.decoder.DecodeRaw(req.OldObject, old); err != nil {
			return Errored(http.StatusBadRequest, fmt.Errorf("the old object: %w", err))
		}
		warnings, err = v.validator.ValidateUpdate(ctx, old, obj)
	case admissionv1.Delete:
		if err := v.decoder.DecodeRaw(req.OldObject, old); err != nil {
			return Errored(http.StatusBadRequest, err)
		}
		warnings, err = v.validator.ValidateDelete(ctx, old)
	default:
		return Errored(http.StatusBadRequest, fmt.Errorf("unknown operation %q", req.Operation))
	}
	if err != nil {
		return refused(err).WithWarnings(warnings...)
	}
	return Allowed("").WithWarnings(warnings...)
}
