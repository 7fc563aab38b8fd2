package versions

import (
	"maps"

	"github.com/kapok-dev/kapok/convert"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	discoveryv1beta1 "k8s.io/api/discovery/v1beta1"
)

// discovery: what was a map of topology labels has fields for zone and node in v1.
func discovery() []convert.Rule {
	return []convert.Rule{
		same[discoveryv1.EndpointSlice, discoveryv1.EndpointSlice](),
		same[discoveryv1.EndpointSlice, discoveryv1beta1.EndpointSlice](),
		both(
			func(in *discoveryv1beta1.Endpoint, hub *discoveryv1.Endpoint) error {
				rest := maps.Clone(in.Topology)
				if zone, ok := rest[corev1.LabelTopologyZone]; ok {
					hub.Zone = &zone
					delete(rest, corev1.LabelTopologyZone)
				}
				// Another host than the node is odd, but was possible.
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
