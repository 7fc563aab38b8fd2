package proxy

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// defaultAffinity is the time for which clients keep their endpoint unless the Service says
// otherwise.
const defaultAffinity = time.Duration(corev1.DefaultClientIPServiceAffinitySeconds) * time.Second

// A Frontend is an address at which a Service is reached.
type Frontend struct {
	Protocol corev1.Protocol // TCP or UDP
	Address  netip.AddrPort
	// Backends are the endpoints, sorted, each once. Connections are refused if there are none.
	Backends []netip.AddrPort
	// Affinity is the time after its last connection for which a client keeps its endpoint; 0: each
	// connection has another one.
	Affinity time.Duration
}

// Frontends returns the frontends of a Service: its cluster IP, and its node ports at the address
// of the node. Headless Services and those of type ExternalName have none, and SCTP is not
// supported.
func Frontends(s *corev1.Service, all []discoveryv1.EndpointSlice, node string, nodeIP netip.Addr) []Frontend {
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	clusterIP, err := netip.ParseAddr(s.Spec.ClusterIP)
	if err != nil { // "None", or "" before it is allocated
		return nil
	}
	var frontends []Frontend
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		if p.Protocol != corev1.ProtocolTCP && p.Protocol != corev1.ProtocolUDP {
			continue
		}
		within := s.Spec.InternalTrafficPolicy != nil && *s.Spec.InternalTrafficPolicy == corev1.ServiceInternalTrafficPolicyLocal
		frontends = append(frontends, Frontend{
			Protocol: p.Protocol, Address: netip.AddrPortFrom(clusterIP, uint16(p.Port)),
			Backends: backends(p, all, node, within), Affinity: affinity(s),
		})
		if p.NodePort == 0 {
			continue
		}
		frontends = append(frontends, Frontend{
			Protocol: p.Protocol, Address: netip.AddrPortFrom(nodeIP, uint16(p.NodePort)),
			Backends: backends(p, all, node, s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal), Affinity: affinity(s),
		})
	}
	return frontends
}

func affinity(s *corev1.Service) time.Duration {
	if s.Spec.SessionAffinity != corev1.ServiceAffinityClientIP {
		return 0
	}
	if c := s.Spec.SessionAffinityConfig; c != nil && c.ClientIP != nil && c.ClientIP.TimeoutSeconds != nil {
		return time.Duration(*c.ClientIP.TimeoutSeconds) * time.Second
	}
	return defaultAffinity
}

// backends returns the endpoints of a port that are ready. If none is, those that terminate and
// still serve are used.
func backends(p *corev1.ServicePort, all []discoveryv1.EndpointSlice, node string, local bool) []netip.AddrPort {
	var ready, terminating []netip.AddrPort
	for i := range all {
		s := &all[i]
		port := portOf(s, p)
		if s.AddressType == discoveryv1.AddressTypeFQDN || port == 0 || s.DeletionTimestamp != nil {
			continue
		}
		for j := range s.Endpoints {
			e := &s.Endpoints[j]
			if local && (e.NodeName == nil || *e.NodeName != node) || len(e.Addresses) == 0 {
				continue
			}
			ip, err := netip.ParseAddr(e.Addresses[0]) // all addresses of an endpoint are the same one
			if err != nil {
				continue
			}
			at, c := netip.AddrPortFrom(ip.Unmap(), port), e.Conditions
			switch isReady := c.Ready == nil || *c.Ready; {
			case isReady:
				ready = append(ready, at)
			case c.Serving != nil && *c.Serving && c.Terminating != nil && *c.Terminating:
				terminating = append(terminating, at)
			}
		}
	}
	if len(ready) == 0 {
		ready = terminating
	}
	slices.SortFunc(ready, func(a, b netip.AddrPort) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Port(), b.Port()))
	})
	return slices.Compact(ready)
}

// portOf returns the port of the endpoints of a slice for a port of the Service, 0 if there is
// none.
func portOf(s *discoveryv1.EndpointSlice, p *corev1.ServicePort) uint16 {
	for _, port := range s.Ports {
		protocol := corev1.ProtocolTCP
		if port.Protocol != nil {
			protocol = *port.Protocol
		}
		name := ""
		if port.Name != nil {
			name = *port.Name
		}
		if name == p.Name && protocol == p.Protocol && port.Port != nil {
			return uint16(*port.Port)
		}
	}
	return 0
}
