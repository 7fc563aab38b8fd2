package devices

import (
	"context"

	"github.com/kapok-dev/kapok/internal/celwork"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validate"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateDeviceClass(ctx context.Context, c, old *resourcev1.DeviceClass) field.ErrorList {
	spec, at := &c.Spec, field.NewPath("spec")
	stored := old != nil && equality.Semantic.DeepEqual(spec.Selectors, old.Spec.Selectors)
	all := validateSelectors(spec.Selectors, stored, celwork.NewBudget(ctx), at.Child("selectors"))
	stored = old != nil && equality.Semantic.DeepEqual(spec.Config, old.Spec.Config)
	all = append(all, validateEach(spec.Config, resourcev1.DeviceConfigMaxSize, at.Child("config"), func(c *resourcev1.DeviceClassConfiguration, at *field.Path) field.ErrorList {
		return validateDeviceConfiguration(&c.DeviceConfiguration, stored, at)
	})...)
	if name := spec.ExtendedResourceName; name != nil {
		all = append(all, byMarker(validate.ExtendedResourceName, at.Child("extendedResourceName"), *name)...)
	}
	return all
}
