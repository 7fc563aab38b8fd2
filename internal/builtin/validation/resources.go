package validation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateResources judges what a container asks for. claims are the names of the
// resource claims of the pod.
func validateResources(r *corev1.ResourceRequirements, claims []string, at *field.Path) field.ErrorList {
	all := validateResourceAmounts(r, at, validateContainerResource)
	return append(all, validateClaimNames(r.Claims, claims, at.Child("claims"))...)
}

// validateContainerResource accepts, of what else may be a resource, those that
// containers may ask for.
func validateContainerResource(name corev1.ResourceName, at *field.Path) field.ErrorList {
	switch {
	case !qualified(string(name)) && !isContainerResource(name):
		return field.ErrorList{field.Invalid(at, name, "must be a standard resource for containers")}
	case qualified(string(name)) && !isNative(name) && !isExtended(name):
		return field.ErrorList{field.Invalid(at, name, "doesn't follow extended resource name standard")}
	}
	return nil
}

// validateResourceAmounts judges limits and requests; known judges names which are well formed
// otherwise.
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
		switch overcommit := mayOvercommit(name); {
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

// validateResource judges the name and the amount of a resource.
func validateResource(name corev1.ResourceName, quantity resource.Quantity, at *field.Path, known func(corev1.ResourceName, *field.Path) field.ErrorList) field.ErrorList {
	all := invalid(at, name, validation.IsQualifiedName(string(name)))
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

// isResource says whether a name is one that resources may have.
func isResource(name corev1.ResourceName) bool {
	return len(validation.IsQualifiedName(string(name))) == 0 && (qualified(string(name)) || isStandard(name))
}

func isHugePages(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// fillsPages says whether an amount of huge pages is one of whole pages.
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

// isStandard says whether a name without a prefix is one that means something
// somewhere, be it in a quota.
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

// isWhole says whether there are no fractions of a resource.
func isCounted(name corev1.ResourceName) bool { return isObjectCount(name) || isExtended(name) }

// isNative says whether a resource is Kubernetes' own.
func isNative(name corev1.ResourceName) bool {
	return !qualified(string(name)) || strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}

// isExtended says whether a resource is one that devices provide.
func isExtended(name corev1.ResourceName) bool {
	const ofQuota = corev1.DefaultResourceRequestsPrefix
	return !isNative(name) && !strings.HasPrefix(string(name), ofQuota) && len(validation.IsQualifiedName(ofQuota+string(name))) == 0
}

// mayOvercommit says whether more may be promised than there is: not of what
// devices provide, nor of huge pages.
func mayOvercommit(name corev1.ResourceName) bool { return isNative(name) && !isHugePages(name) }

// validateClaimNames judges which claims of the pod a container uses.
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
				all = append(all, validateLabelled(at.Child("request"), claim.Request)...)
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
