package services

import (
	"maps"

	"github.com/kapok-dev/kapok/convert"
	"github.com/kapok-dev/kapok/internal/kinds/kind"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	discoveryv1beta1 "k8s.io/api/discovery/v1beta1"
)

// SliceConversions are the conversions of endpoint slices: topology labels in v1beta1 are fields
// for zone and node in v1.
func SliceConversions() []convert.Rule {
	return []convert.Rule{
		kind.Same[discoveryv1.EndpointSlice, discoveryv1.EndpointSlice](),
		kind.Same[discoveryv1.EndpointSlice, discoveryv1beta1.EndpointSlice](),
		kind.Both(
			func(in *discoveryv1beta1.Endpoint, hub *discoveryv1.Endpoint) error {
				rest := maps.Clone(in.Topology)
				if zone, ok := rest[corev1.LabelTopologyZone]; ok {
					hub.Zone = &zone
					delete(rest, corev1.LabelTopologyZone)
				}
				// v1beta1 allowed a host label that is not the node's name.
				if host, ok := rest[corev1.LabelHostname]; ok && hub.NodeName != nil && host == *hub.NodeName {
					delete(rest, corev1.LabelHostname)
				}
				if len(rest) > 0 {
					hub.DeprecatedTopology = rest
				}
				return nil
			},
			func(hub *discoveryv1.Endpoint, out *discoveryv1beta1.Endpoint) error {
				if hub.DeprecatedTopology == nil && hub.Zone == nil && hub.NodeName == nil {
					return nil
				}
				out.Topology = map[string]string{}
				maps.Copy(out.Topology, hub.DeprecatedTopology)
				if hub.Zone != nil {
					out.Topology[corev1.LabelTopologyZone] = *hub.Zone
				}
				if hub.NodeName != nil && out.Topology[corev1.LabelHostname] == "" {
					out.Topology[corev1.LabelHostname] = *hub.NodeName
				}
				return nil
			},
		),
	}
}
