package cluster

import (
	"maps"

	"github.com/kapok-dev/kapok/internal/kinds/defaults"

	corev1 "k8s.io/api/core/v1"
)

// Defaults registers the defaults of this group's types.
func Defaults(f *defaults.Functions) {
	defaults.On(f, func(s *corev1.Secret) { defaults.Value(&s.Type, corev1.SecretTypeOpaque) })
	defaults.On(f, defaultNamespace)
	defaults.On(f, defaultLimitRange)
	defaults.On(f, defaultNodeSpec)
	defaults.On(f, func(status *corev1.NodeStatus) {
		if status.Allocatable == nil {
			status.Allocatable = maps.Clone(status.Capacity)
		}
	})
}

// defaultSecret merges stringData, which is never returned, into data.
func defaultSecret(s *corev1.Secret) {
	for key, value := range s.StringData {
		if s.Data == nil {
			s.Data = map[string][]byte{}
		}
		s.Data[key] = []byte(value)
	}
	s.StringData = nil
	defaults.Value(&s.Type, corev1.SecretTypeOpaque)
}

// defaultNamespace adds the label with the namespace's name.
func defaultNamespace(ns *corev1.Namespace) {
	if ns.Name != "" {
		if ns.Labels == nil {
			ns.Labels = map[string]string{}
		}
		ns.Labels[corev1.LabelMetadataName] = ns.Name
	}
	defaults.Value(&ns.Status.Phase, corev1.NamespaceActive)
}

// defaultNodeSpec makes podCIDR and the first of podCIDRs agree. podCIDR, which old clients write,
// takes precedence.
func defaultNodeSpec(spec *corev1.NodeSpec) {
	switch {
	case spec.PodCIDR != "" && (len(spec.PodCIDRs) == 0 || spec.PodCIDRs[0] != spec.PodCIDR):
		spec.PodCIDRs = []string{spec.PodCIDR}
	case len(spec.PodCIDRs) > 0:
		spec.PodCIDR = spec.PodCIDRs[0]
	}
}

// defaultLimitRange sets missing limits to the maximum, and missing requests to the limit or else
// the minimum.
func defaultLimitRange(item *corev1.LimitRangeItem) {
	if item.Type != corev1.LimitTypeContainer {
		return
	}
	if item.Default == nil {
		item.Default = corev1.ResourceList{}
	}
	if item.DefaultRequest == nil {
		item.DefaultRequest = corev1.ResourceList{}
	}
	inherit(item.Default, item.Max)
	inherit(item.DefaultRequest, item.Default)
	inherit(item.DefaultRequest, item.Min)
}

func inherit(list, from corev1.ResourceList) {
	for name, quantity := range from {
		if _, ok := list[name]; !ok {
			list[name] = quantity.DeepCopy()
		}
	}
}
