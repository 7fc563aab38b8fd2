package pods

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kapok-dev/kapok/internal/kinds/rule"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validatePodResources returns the errors of pod-level resources, which must cover those of the
// containers.
func validatePodResources(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var all field.ErrorList
	r := spec.Resources
	switch {
	case r == nil:
		return nil
	case isWindows(spec):
		return field.ErrorList{field.Forbidden(path, "may not be set for a windows pod")}
	case r.Claims != nil:
		all = append(all, field.Forbidden(path.Child("claims"), "claims may not be set for Resources at pod-level"))
	}
	all = append(all, validateResourceAmounts(r, path, func(name corev1.ResourceName, at *field.Path) field.ErrorList {
		if isCompute(name) || isHugePages(name) || !isResource(name) {
			return nil
		}
		return rule.Supported(at, name, corev1.ResourceCPU, corev1.ResourceHugePagesPrefix, corev1.ResourceMemory)
	})...)
	all = append(all, validateClaimNames(r.Claims, claimNames(spec), path.Child("claims"))...)

	requests := totalResources(spec, func(c *corev1.Container) corev1.ResourceList { return c.Resources.Requests })
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		total, ofPod := requests[name], r.Requests[name]
		if _, ok := r.Requests[name]; ok && total.Cmp(ofPod) > 0 {
			all = append(all, field.Invalid(path.Child("requests").Key(string(name)), ofPod.String(),
				fmt.Sprintf("must be greater than or equal to aggregate container requests of %s", total.String())))
		}
	}
	limits := totalResources(spec, func(c *corev1.Container) corev1.ResourceList { return c.Resources.Limits })
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		total, ofPod := limits[name], r.Limits[name]
		if _, ok := r.Limits[name]; ok && isHugePages(name) && total.Cmp(ofPod) > 0 {
			all = append(all, field.Invalid(path.Child("limits").Key(string(name)), ofPod.String(),
				fmt.Sprintf("must be greater than or equal to aggregate container limits of %s", total.String())))
		}
	}
	for i, c := range spec.Containers {
		for _, name := range slices.Sorted(maps.Keys(c.Resources.Limits)) {
			own, ofPod := c.Resources.Limits[name], r.Limits[name]
			if _, ok := r.Limits[name]; ok && own.Cmp(ofPod) > 0 { // the path is Kubernetes'
				all = append(all, field.Invalid(path.Child("containers").Index(i).Key(string(name)).Child("limits"), own.String(),
					fmt.Sprintf("must be less than or equal to pod limits of %s", ofPod.String())))
			}
		}
	}
	return all
}

// totalResources returns the most that the containers of a pod need at any time. Init containers
// run one after another; sidecars run beside everything that starts after them.
func totalResources(spec *corev1.PodSpec, of func(c *corev1.Container) corev1.ResourceList) corev1.ResourceList {
	total, sidecars, peak := corev1.ResourceList{}, corev1.ResourceList{}, corev1.ResourceList{}
	for i := range spec.Containers {
		add(total, of(&spec.Containers[i]))
	}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		running := of(c)
		if isSidecar(c) {
			add(total, running)
			add(sidecars, running)
			running = sidecars
		} else {
			running = maps.Clone(running)
			if running == nil {
				running = corev1.ResourceList{}
			}
			add(running, sidecars)
		}
		for name, quantity := range running {
			if before, ok := peak[name]; !ok || quantity.Cmp(before) > 0 {
				peak[name] = quantity.DeepCopy()
			}
		}
	}
	for name, quantity := range peak {
		if before, ok := total[name]; !ok || quantity.Cmp(before) > 0 {
			total[name] = quantity
		}
	}
	return total
}

func add(sum, list corev1.ResourceList) {
	for name, quantity := range list {
		total := sum[name].DeepCopy()
		total.Add(quantity)
		sum[name] = total
	}
}

// isSidecar reports whether an init container keeps running.
func isSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// claimNames returns the names of a pod's resource claims, in order.
func claimNames(spec *corev1.PodSpec) []string {
	var names []string
	for _, claim := range spec.ResourceClaims {
		if claim.Name != "" {
			names = append(names, claim.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// validatePodClaims returns the errors of a pod's resource claims.
func validatePodClaims(claims []corev1.PodResourceClaim, meta *metav1.ObjectMeta, path *field.Path) field.ErrorList {
	var all field.ErrorList
	seen := map[string]bool{}
	for i, claim := range claims {
		at := path.Index(i)
		if meta != nil && meta.Annotations[mirrorAnnotation] != "" {
			all = append(all, field.Forbidden(field.NewPath(""), "static pods do not support resource claims"))
			continue
		}
		switch {
		case claim.Name == "":
			all = append(all, field.Required(at.Child("name"), ""))
		case seen[claim.Name]:
			all = append(all, field.Duplicate(at.Child("name"), claim.Name))
		default:
			all = append(all, rule.ValidateLabel(at.Child("name"), claim.Name)...)
			seen[claim.Name] = true
		}
		name, template := claim.ResourceClaimName, claim.ResourceClaimTemplateName
		switch {
		case name != nil && template != nil:
			all = append(all, field.Invalid(at, rule.AsInternal(claim), "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"))
		case name == nil && template == nil:
			all = append(all, field.Invalid(at, rule.AsInternal(claim), "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"))
		}
		if name != nil {
			all = append(all, rule.Invalid(at.Child("resourceClaimName"), *name, apivalidation.NameIsDNSSubdomain(*name, false))...)
		}
		if template != nil {
			all = append(all, rule.Invalid(at.Child("resourceClaimTemplateName"), *template, apivalidation.NameIsDNSSubdomain(*template, false))...)
		}
	}
	return all
}
