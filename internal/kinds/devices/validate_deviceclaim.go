package devices

import (
	"context"
	"fmt"
	"strings"

	"github.com/kapok-dev/kapok/internal/celwork"
	"github.com/kapok-dev/kapok/internal/kinds/rule"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validate"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateResourceClaim(ctx context.Context, c, old *resourcev1.ResourceClaim) field.ErrorList {
	if old == nil {
		return validateDeviceClaim(ctx, &c.Spec.Devices, field.NewPath("spec", "devices"))
	}
	if equality.Semantic.DeepEqual(c.Spec, old.Spec) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("spec"), nil, apivalidation.FieldImmutableErrorMsg)}
}

func validateResourceClaimTemplate(ctx context.Context, t, old *resourcev1.ResourceClaimTemplate) field.ErrorList {
	at := field.NewPath("spec")
	meta := at.Child("metadata")
	all := apivalidation.ValidateAnnotations(t.Spec.Annotations, meta.Child("annotations"))
	all = append(all, metav1validation.ValidateLabels(t.Spec.Labels, meta.Child("labels"))...)
	all = append(all, validateDeviceClaim(ctx, &t.Spec.Spec.Devices, at.Child("spec", "devices"))...)
	if old != nil {
		all = append(all, rule.ValidateImmutable(t.Spec, old.Spec, at)...)
	}
	return all
}

func validateDeviceClaim(ctx context.Context, c *resourcev1.DeviceClaim, at *field.Path) field.ErrorList {
	names, budget := requestNames(c), celwork.NewBudget(ctx)
	all := validateEach(c.Requests, resourcev1.DeviceRequestsMaxSize, at.Child("requests"), func(r *resourcev1.DeviceRequest, at *field.Path) field.ErrorList {
		return validateDeviceRequest(r, budget, at)
	})
	all = append(all, validateEach(c.Constraints, resourcev1.DeviceConstraintsMaxSize, at.Child("constraints"), func(c *resourcev1.DeviceConstraint, at *field.Path) field.ErrorList {
		return validateDeviceConstraint(c, names, at)
	})...)
	all = append(all, validateEach(c.Config, resourcev1.DeviceConfigMaxSize, at.Child("config"), func(c *resourcev1.DeviceClaimConfiguration, at *field.Path) field.ErrorList {
		all := validateRequestRefs(c.Requests, names, at.Child("requests"))
		return append(all, validateDeviceConfiguration(&c.DeviceConfiguration, false, at)...)
	})...)
	return append(all, validateUnique(c.Requests, at.Child("requests"), func(r *resourcev1.DeviceRequest) string { return r.Name })...)
}

// requestNames are the names by which constraints and configurations refer to requests: request, or
// request/subrequest.
func requestNames(c *resourcev1.DeviceClaim) map[string]bool {
	names := map[string]bool{}
	for _, r := range c.Requests {
		names[r.Name] = true
		for _, sub := range r.FirstAvailable {
			names[r.Name+"/"+sub.Name] = true
		}
	}
	return names
}

func validateRequestRefs(refs []string, names map[string]bool, at *field.Path) field.ErrorList {
	all := validateEach(refs, resourcev1.DeviceRequestsMaxSize, at, func(ref *string, at *field.Path) field.ErrorList {
		return validateRequestRef(*ref, names, at)
	})
	return append(all, validateUnique(refs, at, itself[string])...)
}

func validateRequestRef(ref string, names map[string]bool, at *field.Path) (all field.ErrorList) {
	const unknown = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
	if strings.Count(ref, "/") > 1 {
		return field.ErrorList{field.Invalid(at, ref, unknown)}
	}
	for part := range strings.SplitSeq(ref, "/") {
		all = append(all, rule.ValidateLabel(at, part)...)
	}
	if !names[ref] {
		all = append(all, field.Invalid(at, ref, unknown))
	}
	return all
}

func validateDeviceRequest(r *resourcev1.DeviceRequest, b *celwork.Budget, at *field.Path) field.ErrorList {
	all := rule.ValidateLabel(at.Child("name"), r.Name)
	const one = "exactly one of `exactly` or `firstAvailable` is required"
	switch exactly := r.Exactly; {
	case exactly == nil && len(r.FirstAvailable) == 0:
		return append(all, field.Required(at, one))
	case exactly != nil && len(r.FirstAvailable) > 0:
		return append(all, field.Invalid(at, nil, one+", but multiple fields are set"))
	case exactly != nil:
		at = at.Child("exactly")
		all = append(all, validateWanted(exactly.DeviceClassName, exactly.Selectors, exactly.AllocationMode, exactly.Count, b, at)...)
		return append(all, validateDeviceTolerations(exactly.Tolerations, at.Child("tolerations"))...)
	}
	at = at.Child("firstAvailable")
	all = append(all, validateEach(r.FirstAvailable, resourcev1.FirstAvailableDeviceRequestMaxSize, at, func(sub *resourcev1.DeviceSubRequest, at *field.Path) field.ErrorList {
		all := rule.ValidateLabel(at.Child("name"), sub.Name)
		all = append(all, validateWanted(sub.DeviceClassName, sub.Selectors, sub.AllocationMode, sub.Count, b, at)...)
		return append(all, validateDeviceTolerations(sub.Tolerations, at.Child("tolerations"))...)
	})...)
	return append(all, validateUnique(r.FirstAvailable, at, func(s *resourcev1.DeviceSubRequest) string { return s.Name })...)
}

// validateWanted returns the errors of the allocation mode and count.
func validateWanted(class string, selectors []resourcev1.DeviceSelector, mode resourcev1.DeviceAllocationMode, count int64, b *celwork.Budget, at *field.Path) (all field.ErrorList) {
	if class == "" {
		all = append(all, field.Required(at.Child("deviceClassName"), ""))
	} else {
		all = append(all, rule.Invalid(at.Child("deviceClassName"), class, validation.IsDNS1123Subdomain(class))...)
	}
	all = append(all, validateSelectors(selectors, false, b, at.Child("selectors"))...)
	switch mode {
	case resourcev1.DeviceAllocationModeAll:
		if count != 0 {
			all = append(all, field.Invalid(at.Child("count"), count, fmt.Sprintf("must not be specified when allocationMode is '%s'", mode)))
		}
	case resourcev1.DeviceAllocationModeExactCount:
		if count <= 0 {
			all = append(all, field.Invalid(at.Child("count"), count, "must be greater than zero"))
		}
	default:
		all = append(all, rule.Supported(at.Child("allocationMode"), mode, resourcev1.DeviceAllocationModeAll, resourcev1.DeviceAllocationModeExactCount)...)
	}
	return all
}

func validateDeviceConstraint(c *resourcev1.DeviceConstraint, names map[string]bool, at *field.Path) field.ErrorList {
	all := validateRequestRefs(c.Requests, names, at.Child("requests"))
	switch {
	case c.MatchAttribute != nil:
		return append(all, byMarker(validate.ResourceFullyQualifiedName, at.Child("matchAttribute"), *c.MatchAttribute)...)
	case c.DistinctAttribute != nil:
		return append(all, byMarker(validate.ResourceFullyQualifiedName, at.Child("distinctAttribute"), *c.DistinctAttribute)...)
	}
	return append(all, field.Required(at, `exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set`))
}
