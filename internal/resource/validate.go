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
	errs := validation.ValidateObjectMetaAccessor(judged{accessor(obj)}, d.Namespaced, d.validateName(), field.NewPath("metadata"))
	errs = append(errs, judge(r, errs, obj, nil, "")...)
	return invalid(r, obj, errs)
}

// validateUpdate judges a changed object; the error is Invalid.
func validateUpdate(r *Request, obj, old Tree) error {
	d, path := r.Definition, field.NewPath("metadata")
	errs := validation.ValidateObjectMetaAccessor(judged{accessor(obj)}, d.Namespaced, d.validateName(), path)
	changes := validation.ValidateObjectMetaAccessorUpdate(judged{accessor(obj)}, judged{accessor(old)}, path)
	errs = append(errs, changes...)
	if d.Custom || d.Hooks.ChecksMetadataAgain {
		errs = append(errs, changes...)
	}
	subresource := r.Subresource
	if subresource == scaleSubresource {
		subresource = ""
	}
	errs = append(errs, judge(r, errs, obj, old, subresource)...)
	return invalid(r, obj, errs)
}

// judge asks the model, and tells it what is wrong with the ObjectMeta if it wants to know.
func judge(r *Request, found field.ErrorList, obj, old Tree, subresource string) field.ErrorList {
	if j, ok := r.Version.Model.(Judge); ok {
		return j.ValidateAfter(found, obj, old, subresource, r.Warn)
	}
	return r.Version.Model.Validate(obj, old, subresource)
}

func invalid(r *Request, obj Tree, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	gk := r.Definition.GroupVersionKind(r.Version).GroupKind()
	if r.Version.Warning == "" { // of two groups that are no worse than each other, the kind has the name of its own
		gk.Group = r.Definition.Group
	}
	return apierrors.NewInvalid(gk, metaString(obj, "name"), errs)
}
