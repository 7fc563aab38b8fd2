package pods

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/kinds/rule"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateResources returns the errors of a container's resources. claims are the names of the
// pod's resource claims.
func validateResources(r *corev1.ResourceRequirements, claims []string, at *field.Path) field.ErrorList {
	all := validateResourceAmounts(r, at, validateNativeContainerResource)
	return append(all, validateClaimNames(r.Claims, claims, at.Child("claims"))...)
}

// validateNativeContainerResource rejects, among otherwise valid names, resources that containers
// cannot request.
func validateNativeContainerResource(name corev1.ResourceName, at *field.Path) field.ErrorList {
	switch {
	case !rule.Qualified(string(name)) && !isContainerResource(name):
		return field.ErrorList{field.Invalid(at, name, "must be a standard resource for containers")}
	case rule.Qualified(string(name)) && !rule.IsNative(name) && !IsExtended(name):
		return field.ErrorList{field.Invalid(at, name, "doesn't follow extended resource name standard")}
	}
	return nil
}

// validateResourceAmounts returns the errors of limits and requests; known validates names that are
// well formed.
func validateResourceAmounts(r *corev1.ResourceRequirements, at *field.Path, known func(corev1.ResourceName, *field.Path) field.ErrorList) field.ErrorList {
	var all field.ErrorList
	limits, requests := at.Child("limits"), at.Child("requests")
	pages, compute := false, false
	for _, name := range slices.Sorted(maps.Keys(r.Limits)) {
		pages, compute = pages || isHugePages(name), compute || isCompute(name)
		all = append(all, validateResource(name, r.Limits[name], limits.Key(string(name)), known)...)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Requests)) {
		pages, compute = pages || isHugePages(name), compute || isCompute(name)
		request := r.Requests[name]
		all = append(all, validateResource(name, request, requests.Key(string(name)), known)...)
		limit, limited := r.Limits[name]
		switch overcommit := MayOvercommit(name); {
		case !limited && !overcommit:
			all = append(all, field.Required(limits, "Limit must be set for non overcommitable resources"))
		case limited && !overcommit && request.Cmp(limit) != 0:
			all = append(all, field.Invalid(requests, request.String(), fmt.Sprintf("must be equal to %s limit of %s", name, limit.String())))
		case limited && request.Cmp(limit) > 0:
			all = append(all, field.Invalid(requests, request.String(), fmt.Sprintf("must be less than or equal to %s limit of %s", name, limit.String())))
		}
	}
	if pages && !compute {
		all = append(all, field.Forbidden(at, "HugePages require cpu or memory"))
	}
	return all
}

// validateResource returns the errors of the name and quantity of a resource.
func validateResource(name corev1.ResourceName, quantity resource.Quantity, at *field.Path, known func(corev1.ResourceName, *field.Path) field.ErrorList) field.ErrorList {
	all := rule.Invalid(at, name, validation.IsQualifiedName(string(name)))
	if len(all) == 0 && !isResource(name) {
		all = append(all, field.Invalid(at, name, "must be a standard resource type or fully qualified"))
	}
	all = append(all, known(name, at)...)
	if quantity.Sign() < 0 {
		all = append(all, field.Invalid(at, quantity.String(), apivalidation.IsNegativeErrorMsg))
	}
	if isCounted(name) && quantity.MilliValue()%1000 != 0 {
		all = append(all, field.Invalid(at, quantity, "must be an integer"))
	}
	if isHugePages(name) && !fillsPages(name, quantity) {
		all = append(all, field.Invalid(at, quantity.String(), fmt.Sprintf("%s is not positive integer multiple of %s", quantity.String(), name)))
	}
	return all
}

// isResource reports whether name can be that of a resource.
func isResource(name corev1.ResourceName) bool {
	return len(validation.IsQualifiedName(string(name))) == 0 && (rule.Qualified(string(name)) || isStandard(name))
}

func isHugePages(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// fillsPages reports whether a quantity of huge pages is a multiple of the page size.
func fillsPages(name corev1.ResourceName, quantity resource.Quantity) bool {
	size, err := resource.ParseQuantity(strings.TrimPrefix(string(name), corev1.ResourceHugePagesPrefix))
	return err == nil && size.Sign() > 0 && size.MilliValue()%1000 == 0 && quantity.Value()%size.Value() == 0
}

func isCompute(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory
}

func isContainerResource(name corev1.ResourceName) bool {
	return isCompute(name) || name == corev1.ResourceEphemeralStorage || isHugePages(name)
}

// isStandard reports whether a name without a prefix is known anywhere, quotas included.
func isStandard(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceStorage, corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceRequestsStorage, corev1.ResourceRequestsEphemeralStorage,
		corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory, corev1.ResourceLimitsEphemeralStorage:
		return true
	}
	return isContainerResource(name) || isObjectCount(name) || strings.HasPrefix(string(name), corev1.ResourceRequestsHugePagesPrefix)
}

func isObjectCount(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourcePods, corev1.ResourceQuotas, corev1.ResourceServices, corev1.ResourceReplicationControllers, corev1.ResourceSecrets,
		corev1.ResourceConfigMaps, corev1.ResourcePersistentVolumeClaims, corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers:
		return true
	}
	return false
}

// isCounted reports whether a resource is counted in whole units.
func isCounted(name corev1.ResourceName) bool { return isObjectCount(name) || IsExtended(name) }

// IsExtended reports whether a resource is provided by devices.
func IsExtended(name corev1.ResourceName) bool {
	const ofQuota = corev1.DefaultResourceRequestsPrefix
	return !rule.IsNative(name) && !strings.HasPrefix(string(name), ofQuota) && len(validation.IsQualifiedName(ofQuota+string(name))) == 0
}

// MayOvercommit reports whether limits of a resource may exceed its requests: not for extended
// resources and huge pages.
func MayOvercommit(name corev1.ResourceName) bool { return rule.IsNative(name) && !isHugePages(name) }

// validateClaimNames returns the errors of a container's references to the pod's claims.
func validateClaimNames(claims []corev1.ResourceClaim, known []string, at *field.Path) field.ErrorList {
	var all field.ErrorList
	seen := map[string]bool{}
	for i, claim := range claims {
		at, key := at.Index(i), claim.Name
		switch {
		case claim.Name == "":
			all = append(all, field.Required(at, ""))
			continue
		case seen[claim.Name]: // all of it is used already
			all = append(all, field.Duplicate(at, claim.Name))
		default:
			if claim.Request != "" {
				all = append(all, rule.ValidateLabel(at.Child("request"), claim.Request)...)
				key += "/" + claim.Request
			}
			if seen[key] {
				all = append(all, field.Duplicate(at, key))
			} else if claim.Request == "" {
				for other := range seen {
					if strings.HasPrefix(other, claim.Name+"/") {
						all = append(all, field.Duplicate(at, claim.Name))
					}
				}
			}
			seen[key] = true
		}
		if !slices.Contains(known, claim.Name) {
			missing := field.NotFound(at, claim.Name)
			missing.Detail = "must be one of the names in pod.spec.resourceClaims which is empty"
			if len(known) > 0 {
				missing.Detail = "must be one of the names in pod.spec.resourceClaims: " + strings.Join(known, ", ")
			}
			all = append(all, missing)
		}
	}
	return all
}
