package resource

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func (d *Definition) validateName() validation.ValidateNameFunc {
	if d.Hooks.ValidateName != nil {
		return d.Hooks.ValidateName
	}
	return validation.NameIsDNSSubdomain
}

// validateCreate judges a new object; the error is Invalid.
func validateCreate(r *Request, obj Tree) error {
	d := r.Definition
	errs := validation.ValidateObjectMetaAccessor(accessor(obj), d.Namespaced, d.validateName(), field.NewPath("metadata"))
	errs = append(errs, r.Version.Model.Validate(obj, nil, "")...)
	return invalid(d, obj, errs)
}

// validateUpdate judges a changed object; the error is Invalid.
func validateUpdate(r *Request, obj, old Tree) error {
	d, path := r.Definition, field.NewPath("metadata")
	errs := validation.ValidateObjectMetaAccessor(accessor(obj), d.Namespaced, d.validateName(), path)
	errs = append(errs, validation.ValidateObjectMetaAccessorUpdate(accessor(obj), accessor(old), path)...)
	subresource := r.Subresource
	if subresource == scaleSubresource {
		subresource = ""
	}
	errs = append(errs, r.Version.Model.Validate(obj, old, subresource)...)
	return invalid(d, obj, errs)
}

func invalid(d *Definition, obj Tree, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(d.GroupKind(), metaString(obj, "name"), errs)
}
