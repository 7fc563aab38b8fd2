package quota

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	kvalidation "k8s.io/apimachinery/pkg/util/validation"
	resources "k8s.io/component-helpers/resource"
)

// A pod uses the requests and limits of its containers until it has ended.
type pod corev1.Pod

const requestsPrefix = corev1.DefaultResourceRequestsPrefix

// podNames are the resources that pods use, except for extended resources and huge pages.
var podNames = map[corev1.ResourceName]bool{
	corev1.ResourcePods: true,
	corev1.ResourceCPU:  true, corev1.ResourceMemory: true, corev1.ResourceEphemeralStorage: true,
	corev1.ResourceRequestsCPU: true, corev1.ResourceRequestsMemory: true, corev1.ResourceRequestsEphemeralStorage: true,
	corev1.ResourceLimitsCPU: true, corev1.ResourceLimitsMemory: true, corev1.ResourceLimitsEphemeralStorage: true,
}

// required are the resources that every container must specify if a quota bounds them.
var required = map[corev1.ResourceName]bool{
	corev1.ResourceCPU: true, corev1.ResourceMemory: true,
	corev1.ResourceRequestsCPU: true, corev1.ResourceRequestsMemory: true,
	corev1.ResourceLimitsCPU: true, corev1.ResourceLimitsMemory: true,
}

func measuresPods(name corev1.ResourceName) bool {
	text := string(name)
	if podNames[name] || strings.HasPrefix(text, corev1.ResourceHugePagesPrefix) || strings.HasPrefix(text, corev1.ResourceRequestsHugePagesPrefix) {
		return true
	}
	extended := strings.Contains(text, "/") && !strings.Contains(text, corev1.ResourceDefaultNamespacePrefix)
	return strings.HasPrefix(text, requestsPrefix) && (extended || strings.HasPrefix(text, requestsPrefix+resourcev1.ResourceDeviceClassPrefix))
}

func (p *pod) usage() corev1.ResourceList {
	used := corev1.ResourceList{countOf(pods): many(1)}
	if p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded {
		return used
	}
	options := resources.PodResourcesOptions{UseStatusResources: true}
	maps.Copy(used, computed(resources.PodRequests((*corev1.Pod)(p), options), resources.PodLimits((*corev1.Pod)(p), options)))
	return used
}

// computed returns the use with the given requests and limits, by the names in quotas.
func computed(requests, limits corev1.ResourceList) corev1.ResourceList {
	used := corev1.ResourceList{corev1.ResourcePods: many(1)}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		if q, ok := requests[name]; ok {
			used[name], used[requestsPrefix+name] = q, q
		}
		if q, ok := limits[name]; ok {
			used["limits."+name] = q
		}
	}
	for name, q := range requests {
		switch {
		case strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix):
			used[name], used[requestsPrefix+name] = q, q
		case isExtended(name):
			used[requestsPrefix+name] = q
		}
	}
	return used
}

// isExtended reports whether a resource is not one of Kubernetes' own.
func isExtended(name corev1.ResourceName) bool {
	text := string(name)
	switch {
	case strings.HasPrefix(text, resourcev1.ResourceDeviceClassPrefix):
		return true
	case !strings.Contains(text, "/"), strings.Contains(text, corev1.ResourceDefaultNamespacePrefix), strings.HasPrefix(text, requestsPrefix):
		return false
	}
	return len(kvalidation.IsQualifiedName(requestsPrefix+text)) == 0
}

func (p *pod) in(scope corev1.ScopedResourceSelectorRequirement) bool {
	switch scope.ScopeName {
	case corev1.ResourceQuotaScopeTerminating:
		return p.terminating()
	case corev1.ResourceQuotaScopeNotTerminating:
		return !p.terminating()
	case corev1.ResourceQuotaScopeBestEffort:
		return p.Status.QOSClass == corev1.PodQOSBestEffort
	case corev1.ResourceQuotaScopeNotBestEffort:
		return p.Status.QOSClass != corev1.PodQOSBestEffort
	case corev1.ResourceQuotaScopePriorityClass:
		if p.Spec.PriorityClassName == "" {
			return selects(scope)
		}
		return selects(scope, p.Spec.PriorityClassName)
	case corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return p.crossesNamespaces()
	}
	return false
}

// terminating reports whether a pod has an active deadline.
func (p *pod) terminating() bool {
	return p.Spec.ActiveDeadlineSeconds != nil && *p.Spec.ActiveDeadlineSeconds >= 0
}

// crossesNamespaces reports whether a pod's affinity refers to pods of other namespaces.
func (p *pod) crossesNamespaces() bool {
	if p.Spec.Affinity == nil {
		return false
	}
	var terms []corev1.PodAffinityTerm
	add := func(must []corev1.PodAffinityTerm, should []corev1.WeightedPodAffinityTerm) {
		terms = append(terms, must...)
		for _, t := range should {
			terms = append(terms, t.PodAffinityTerm)
		}
	}
	if near := p.Spec.Affinity.PodAffinity; near != nil {
		add(near.RequiredDuringSchedulingIgnoredDuringExecution, near.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if far := p.Spec.Affinity.PodAntiAffinity; far != nil {
		add(far.RequiredDuringSchedulingIgnoredDuringExecution, far.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return slices.ContainsFunc(terms, func(t corev1.PodAffinityTerm) bool { return len(t.Namespaces) > 0 || t.NamespaceSelector != nil })
}

func (p *pod) lacks(bounded []corev1.ResourceName) error {
	if resources.IsPodLevelResourcesSet((*corev1.Pod)(p)) {
		return nil
	}
	missing := map[corev1.ResourceName][]string{}
	for _, c := range slices.Concat(p.Spec.Containers, p.Spec.InitContainers) {
		said := computed(c.Resources.Requests, c.Resources.Limits)
		for _, name := range bounded {
			if _, ok := said[name]; !ok && required[name] {
				missing[name] = append(missing[name], c.Name)
			}
		}
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		slices.Sort(missing[name])
		parts = append(parts, fmt.Sprintf("%s for: %s", name, strings.Join(slices.Compact(missing[name]), ",")))
	}
	if parts == nil {
		return nil
	}
	return errors.New("must specify " + strings.Join(parts, "; "))
}
