package crd

import (
	"fmt"
	"math"
	"strings"

	"github.com/kapok-dev/kapok/internal/resource"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// scaleOf returns the scale subresource in the server's form; nil if there is none.
func scaleOf(s *apiextensionsv1.CustomResourceSubresourceScale) *resource.Scale {
	if s == nil {
		return nil
	}
	scale := &resource.Scale{Replicas: scaleKeys(s.SpecReplicasPath), StatusReplicas: scaleKeys(s.StatusReplicasPath)}
	if s.LabelSelectorPath != nil && *s.LabelSelectorPath != "" {
		scale.Selector = scaleKeys(*s.LabelSelectorPath)
	}
	return scale
}

func scaleKeys(path string) []string { return strings.Split(strings.TrimPrefix(path, "."), ".") }

func validateScaleSpec(s *apiextensionsv1.CustomResourceSubresourceScale, obj resource.Tree) field.ErrorList {
	if s == nil {
		return nil
	}
	return validateReplicas(s.SpecReplicasPath, obj)
}

func validateScaleStatus(s *apiextensionsv1.CustomResourceSubresourceScale, obj resource.Tree) field.ErrorList {
	if s == nil {
		return nil
	}
	errs := validateReplicas(s.StatusReplicasPath, obj)
	if s.LabelSelectorPath != nil {
		selector, _, err := unstructured.NestedString(obj, scaleKeys(*s.LabelSelectorPath)...)
		if err != nil {
			errs = append(errs, field.Invalid(field.NewPath(*s.LabelSelectorPath), selector, err.Error()))
		}
	}
	return errs
}

func validateReplicas(path string, obj resource.Tree) field.ErrorList {
	n, _, err := unstructured.NestedInt64(obj, scaleKeys(path)...)
	invalid := func(message string) field.ErrorList {
		return field.ErrorList{field.Invalid(field.NewPath(path), n, message)}
	}
	switch {
	case err != nil:
		return invalid(err.Error())
	case n < 0:
		return invalid("should be a non-negative integer")
	case n > math.MaxInt32:
		return invalid(fmt.Sprintf("should be less than or equal to %v", math.MaxInt32))
	}
	return nil
}
