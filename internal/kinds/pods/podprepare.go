package pods

import (
	"maps"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// completePod sets the fields of a new pod that depend on others.
func completePod(obj resource.Tree) {
	spec, _ := obj["spec"].(resource.Tree)
	annotations, _ := kind.Get(obj, "metadata", "annotations").(resource.Tree)
	profiles := false
	for key := range annotations {
		profiles = profiles || strings.HasPrefix(key, corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix)
	}
	if spec["affinity"] == nil && spec["topologySpreadConstraints"] == nil && spec["resources"] == nil && !profiles {
		return
	}
	kind.Edited(func(pod *corev1.Pod) {
		takeAppArmorProfiles(pod)
		selectByOwnLabels(&pod.Spec, pod.Labels)
		completePodResources(&pod.Spec)
	})(obj)
}

// takeAppArmorProfiles copies AppArmor profiles from annotations, their former place, into security
// contexts, unless the profile is that of the pod.
func takeAppArmorProfiles(pod *corev1.Pod) {
	if pod.Spec.OS != nil && pod.Spec.OS.Name == corev1.Windows {
		return
	}
	var ofPod *corev1.AppArmorProfile
	if pod.Spec.SecurityContext != nil {
		ofPod = pod.Spec.SecurityContext.AppArmorProfile
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			c := &containers[i]
			name, ok := pod.Annotations[corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix+c.Name]
			profile := appArmorProfile(name)
			if !ok || profile == nil || equality.Semantic.DeepEqual(profile, ofPod) {
				continue
			}
			if c.SecurityContext == nil {
				c.SecurityContext = &corev1.SecurityContext{}
			}
			if c.SecurityContext.AppArmorProfile == nil {
				c.SecurityContext.AppArmorProfile = profile
			}
		}
	}
}

// appArmorProfile returns the profile that an annotation names, nil if it names none.
func appArmorProfile(name string) *corev1.AppArmorProfile {
	local, isLocal := strings.CutPrefix(name, corev1.DeprecatedAppArmorBetaProfileNamePrefix)
	switch {
	case name == corev1.DeprecatedAppArmorBetaProfileNameUnconfined:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	case name == corev1.DeprecatedAppArmorBetaProfileRuntimeDefault:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}
	case isLocal && local != "" && strings.TrimSpace(local) == local:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: &local}
	}
	return nil
}

// selectByOwnLabels turns matchLabelKeys and mismatchLabelKeys into requirements with the pod's own
// labels.
func selectByOwnLabels(spec *corev1.PodSpec, labels map[string]string) {
	require := func(selector *metav1.LabelSelector, keys []string, operator metav1.LabelSelectorOperator) {
		for _, key := range keys {
			if value, ok := labels[key]; ok && selector != nil {
				selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: []string{value}})
			}
		}
	}
	ofTerm := func(term *corev1.PodAffinityTerm) {
		require(term.LabelSelector, term.MatchLabelKeys, metav1.LabelSelectorOpIn)
		require(term.LabelSelector, term.MismatchLabelKeys, metav1.LabelSelectorOpNotIn)
	}
	ofTerms := func(must []corev1.PodAffinityTerm, should []corev1.WeightedPodAffinityTerm) {
		for i := range should {
			ofTerm(&should[i].PodAffinityTerm)
		}
		for i := range must {
			ofTerm(&must[i])
		}
	}
	if a := spec.Affinity; a != nil {
		if near := a.PodAffinity; near != nil {
			ofTerms(near.RequiredDuringSchedulingIgnoredDuringExecution, near.PreferredDuringSchedulingIgnoredDuringExecution)
		}
		if far := a.PodAntiAffinity; far != nil {
			ofTerms(far.RequiredDuringSchedulingIgnoredDuringExecution, far.PreferredDuringSchedulingIgnoredDuringExecution)
		}
	}
	for i := range spec.TopologySpreadConstraints {
		c := &spec.TopologySpreadConstraints[i]
		require(c.LabelSelector, c.MatchLabelKeys, metav1.LabelSelectorOpIn)
	}
}

// completePodResources sets missing requests of the pod as a whole from those of its containers.
func completePodResources(spec *corev1.PodSpec) {
	r := spec.Resources
	if r == nil || len(r.Requests)+len(r.Limits) == 0 {
		return
	}
	requests := totalResources(spec, func(c *corev1.Container) corev1.ResourceList { return c.Resources.Requests })
	limits := totalResources(spec, func(c *corev1.Container) corev1.ResourceList { return c.Resources.Limits })
	for name, limit := range limits {
		if _, requested := r.Requests[name]; isHugePagesName(name) && !requested {
			setMissing(&r.Limits, name, limit)
		}
	}
	for name, request := range requests {
		if ofPods(name) && !isHugePagesName(name) {
			setMissing(&r.Requests, name, request)
		}
	}
	for name, limit := range r.Limits {
		if ofPods(name) {
			setMissing(&r.Requests, name, limit)
		}
	}
	for name, request := range maps.Clone(r.Requests) {
		limit, ok := limits[name]
		if !ok || !ofPods(name) || !limitedEverywhere(spec, name) {
			continue
		}
		if request.Cmp(limit) > 0 {
			limit = request
		}
		setMissing(&r.Limits, name, limit)
	}
}

// ofPods reports whether a pod as a whole can request a resource.
func ofPods(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || isHugePagesName(name)
}

func isHugePagesName(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// limitedEverywhere reports whether all containers limit a resource.
func limitedEverywhere(spec *corev1.PodSpec, name corev1.ResourceName) bool {
	return !slices.ContainsFunc(slices.Concat(spec.InitContainers, spec.Containers), func(c corev1.Container) bool {
		_, ok := c.Resources.Limits[name]
		return !ok
	})
}

func setMissing(list *corev1.ResourceList, name corev1.ResourceName, quantity apiresource.Quantity) {
	if _, ok := (*list)[name]; ok {
		return
	}
	if *list == nil {
		*list = corev1.ResourceList{}
	}
	(*list)[name] = quantity.DeepCopy()
}
