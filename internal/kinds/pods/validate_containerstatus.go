package pods

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/kinds/rule"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateContainerUsers returns the errors of the users that containers run as. A user ID may be
// any of the kernel, also one that a pod cannot ask for.
func validateContainerUsers(statuses []corev1.ContainerStatus, os *corev1.PodOS, path *field.Path) field.ErrorList {
	var all field.ErrorList
	for i := range statuses {
		if statuses[i].User == nil || statuses[i].User.Linux == nil {
			continue
		}
		at, user := path.Index(i).Child("user", "linux"), statuses[i].User.Linux
		switch {
		case os == nil || os.Name == corev1.Linux:
			if user.UID < 0 || user.UID > math.MaxUint32 {
				all = append(all, field.Invalid(at.Child("uid"), user.UID, fmt.Sprintf("must be between 0 and %d, inclusive", int64(math.MaxUint32))))
			}
			all = append(all, rule.Invalid(at.Child("gid"), user.GID, validation.IsValidGroupID(user.GID))...)
			for g, gid := range user.SupplementalGroups {
				all = append(all, rule.Invalid(at.Child("supplementalGroups").Index(g), gid, validation.IsValidGroupID(gid))...)
			}
		case os.Name == corev1.Windows:
			all = append(all, field.Forbidden(at, "cannot be set for a windows pod"))
		}
	}
	return all
}

// validateAllocated returns the errors of the devices of containers, by the resources that the
// containers have requested. A status of a container that the pod does not have is accepted
// (kubernetes issue 124915).
func validateAllocated(statuses []corev1.ContainerStatus, containers []corev1.Container, claimed *corev1.PodExtendedResourceClaimStatus, path *field.Path) field.ErrorList {
	if !slices.ContainsFunc(statuses, func(s corev1.ContainerStatus) bool { return len(s.AllocatedResourcesStatus) > 0 }) {
		return nil
	}
	names := deviceNames(containers, claimed)
	var all field.ErrorList
	for i := range statuses {
		known, ok := names[statuses[i].Name]
		for j := range statuses[i].AllocatedResourcesStatus {
			of, at := &statuses[i].AllocatedResourcesStatus[j], path.Index(i).Child("allocatedResourcesStatus").Index(j)
			switch {
			case !ok || known[of.Name]:
			case strings.HasPrefix(string(of.Name), claimPrefix):
				all = append(all, field.Invalid(at.Child("name"), of.Name, "must match one of the container's resource claims as 'claim:<claimName>/<requestName>' "+
					"when container.resources.claims[*].request is set or 'claim:<claimName>' when it is empty"))
			default:
				all = append(all, field.Invalid(at.Child("name"), of.Name, "must match one of the container's resource requests"))
			}
			all = append(all, validateHealth(of.Resources, at.Child("resources"))...)
		}
	}
	return all
}

// claimPrefix begins the name of a device that a claim has allocated.
const claimPrefix = "claim:"

// deviceNames returns the names that devices may have, by the names of the containers: resources
// that are requested, claims, and requests of the claim for extended resources.
func deviceNames(containers []corev1.Container, claimed *corev1.PodExtendedResourceClaimStatus) map[string]map[corev1.ResourceName]bool {
	names, requests := map[string]map[corev1.ResourceName]bool{}, map[string]corev1.ResourceList{}
	for i := range containers {
		c := &containers[i]
		if names[c.Name] != nil {
			continue
		}
		known := map[corev1.ResourceName]bool{}
		for name := range c.Resources.Requests {
			if !strings.HasPrefix(string(name), claimPrefix) {
				known[name] = true
			}
		}
		for _, claim := range c.Resources.Claims {
			known[deviceName(claim.Name, claim.Request)] = true
		}
		names[c.Name], requests[c.Name] = known, c.Resources.Requests
	}
	if claimed == nil || claimed.ResourceClaimName == "" {
		return names
	}
	for _, m := range claimed.RequestMappings {
		requested := requests[m.ContainerName][corev1.ResourceName(m.ResourceName)]
		if known := names[m.ContainerName]; known != nil && m.RequestName != "" && !requested.IsZero() {
			known[deviceName(claimed.ResourceClaimName, m.RequestName)] = true
		}
	}
	return names
}

func deviceName(claim, request string) corev1.ResourceName {
	if request == "" {
		return corev1.ResourceName(claimPrefix + claim)
	}
	return corev1.ResourceName(claimPrefix + claim + "/" + request)
}

func validateHealth(devices []corev1.ResourceHealth, path *field.Path) field.ErrorList {
	var all field.ErrorList
	repeats := rule.Repeats[corev1.ResourceID]()
	for i, device := range devices {
		at := path.Index(i)
		all = append(all, rule.Supported(at.Child("health"), device.Health,
			corev1.ResourceHealthStatusHealthy, corev1.ResourceHealthStatusUnhealthy, corev1.ResourceHealthStatusUnknown)...)
		switch message := device.Message; {
		case message == nil:
		case *message == "":
			all = append(all, field.Required(at.Child("message"), "must be non-empty if specified"))
		case len(*message) > corev1.ResourceHealthMessageMaxLength:
			all = append(all, field.TooLong(at.Child("message"), *message, corev1.ResourceHealthMessageMaxLength))
		}
		if repeats(device.ResourceID) {
			all = append(all, field.Duplicate(at.Child("resourceID"), device.ResourceID))
		}
	}
	return all
}

// validateNoneAllocated rejects devices of ephemeral containers, which cannot request resources.
func validateNoneAllocated(statuses []corev1.ContainerStatus, path *field.Path) field.ErrorList {
	var all field.ErrorList
	for i := range statuses {
		if len(statuses[i].AllocatedResourcesStatus) > 0 {
			all = append(all, field.Forbidden(path.Index(i).Child("allocatedResourcesStatus"), "must not be specified in container status"))
		}
	}
	return all
}

// validateExtendedClaim returns the errors of the claim that the scheduler has created for extended
// resources. The path of a request has no index in Kubernetes.
func validateExtendedClaim(status *corev1.PodExtendedResourceClaimStatus, spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	if status == nil {
		return nil
	}
	var all field.ErrorList
	if len(status.RequestMappings) == 0 {
		all = append(all, field.Required(path.Child("requestMappings"), "at least one request mapping is required"))
	}
	containers := map[string]*corev1.Container{}
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			containers[list[i].Name] = &list[i]
		}
	}
	repeats := rule.Repeats[corev1.ContainerExtendedResourceRequest]()
	for i, m := range status.RequestMappings {
		at := path.Child("requestMappings").Index(i)
		if c := containers[m.ContainerName]; c == nil {
			all = append(all, field.Invalid(at.Child("containerName"), m.ContainerName, "must match the name of an entry in spec.initContainers.name or spec.containers.name"))
		} else if _, ok := c.Resources.Requests[corev1.ResourceName(m.ResourceName)]; !ok {
			all = append(all, field.Invalid(at.Child("resourceName"), m.ResourceName,
				"must match the extended resource name of an entry in spec.initContainers.resources.requests or spec.containers.resources.requests"))
		}
		all = append(all, rule.Invalid(path.Child("requestName"), m.RequestName, validation.IsDNS1123Label(m.RequestName))...)
		if repeats(m) {
			all = append(all, field.Duplicate(at.Child("containerName"), m.ContainerName),
				field.Duplicate(at.Child("resourceName"), m.ResourceName), field.Duplicate(at.Child("requestName"), m.RequestName))
		}
	}
	if name := status.ResourceClaimName; name == "" {
		all = append(all, field.Required(path.Child("resourceClaimName"), ""))
	} else {
		all = append(all, rule.Invalid(path.Child("resourceClaimName"), name, apivalidation.NameIsDNSSubdomain(name, false))...)
	}
	return all
}
