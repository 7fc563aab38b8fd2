package resource

import (
	"context"

	"github.com/kapok-dev/kapok/internal/causes"

	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func (d *Definition) validateName() validation.ValidateNameFunc {
	if d.Strategy.ValidateName != nil {
		return d.Strategy.ValidateName
	}
	return validation.NameIsDNSSubdomain
}

// validateCreate validates a new object; raw says that it may not be normalised. The error is
// Invalid, or that of the context: validation is most of the work of a write, and stops when the
// client has left.
func validateCreate(ctx context.Context, r *Request, obj Tree, raw bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d := r.Definition
	var errs field.ErrorList
	if raw {
		if errs = wrongKind(d, obj); errs != nil {
			return invalid(ctx, r, obj, errs)
		}
		errs = noObjectMeta(obj)
	}
	if errs == nil {
		errs = validation.ValidateObjectMetaAccessor(validatedMeta{accessor(obj)}, d.Namespaced, d.validateName(), field.NewPath("metadata"))
	}
	errs = append(errs, validateModel(ctx, r, errs, obj, nil, "")...)
	return invalid(ctx, r, obj, errs)
}

// Complete returns the object in a file as it would be created: with defaults, and with the fields
// that the server sets. It does not ask admission. The errors of validation are returned apart, so
// that the caller can tolerate some; err is that of decoding, also for unknown fields.
func Complete(ctx context.Context, d *Definition, v *Version, data []byte) (_ Tree, errs field.ErrorList, err error) {
	r := &Request{Definition: d, Version: v, Warn: func(string) {}}
	var strict []error
	obj, err := v.Model.Decode(data, &strict)
	if err == nil && len(strict) > 0 {
		err = runtime.NewStrictDecodingError(strict)
	}
	if err != nil {
		return nil, nil, err
	}
	wipeSystemFields(obj)
	prepareCreate(r, obj)
	errs = validation.ValidateObjectMetaAccessor(validatedMeta{accessor(obj)}, d.Namespaced, d.validateName(), field.NewPath("metadata"))
	return obj, append(errs, validateModel(ctx, r, errs, obj, nil, "")...), nil
}

// validateUpdate validates a changed object. Its errors are those of validateCreate.
func validateUpdate(ctx context.Context, r *Request, obj, old Tree, raw bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d, path := r.Definition, field.NewPath("metadata")
	errs := validation.ValidateObjectMetaAccessor(validatedMeta{accessor(obj)}, d.Namespaced, d.validateName(), path)
	changes := validation.ValidateObjectMetaAccessorUpdate(validatedMeta{accessor(obj)}, validatedMeta{accessor(old)}, path)
	errs = append(errs, changes...)
	if d.Custom || d.Strategy.ValidatesMetadataTwice {
		errs = append(errs, changes...)
	}
	if raw {
		if other := wrongKind(d, obj); other != nil {
			return invalid(ctx, r, obj, append(errs, other...))
		}
		errs = append(errs, noObjectMeta(obj)...)
	}
	subresource := r.Subresource
	if subresource == scaleSubresource {
		subresource = ""
	}
	errs = append(errs, validateModel(ctx, r, errs, obj, old, subresource)...)
	return invalid(ctx, r, obj, errs)
}

// validateModel validates an object by its model. found are the errors of the ObjectMeta, which
// some models need.
func validateModel(ctx context.Context, r *Request, found field.ErrorList, obj, old Tree, subresource string) field.ErrorList {
	if j, ok := r.Version.Model.(RatchetingValidator); ok {
		return j.ValidateAfter(ctx, found, obj, old, subresource, r.Warn)
	}
	return r.Version.Model.Validate(ctx, obj, old, subresource)
}

func invalid(ctx context.Context, r *Request, obj Tree, errs field.ErrorList) error {
	if err := ctx.Err(); err != nil || len(errs) == 0 {
		return err
	}
	gk := r.Definition.GroupVersionKind(r.Version).GroupKind()
	if r.Version.Warning == "" { // of two groups that are no worse than each other, the kind has the name of its own
		gk.Group = r.Definition.Group
	}
	if kind := namedKind(obj).Kind; kind != "" {
		gk.Kind = kind
	}
	return causes.Invalid(gk, metaString(obj, "name"), errs)
}
