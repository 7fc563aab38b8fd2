package builtin

import (
	"net/netip"

	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
)

// Ranges are where services get their addresses and ports from. Whatever is given is
// claimed in the commit that writes the service, and released in that which removes
// it: nothing is given twice, however many servers write, and nothing leaks.
//
// A cluster IP is an IPAddress, an object of that name. It can be created once only.
// Node ports are bits of one object that nobody is served, where kube-apiserver has it
// (servicenodeports), for two reasons: a commit on etcd writes one object of a
// resource at most, and a service may have many ports; and what a kube-apiserver has
// given is known then. Services with node ports are written one after another.
type Ranges struct {
	// Addresses is the range of cluster IPs, as long as no ServiceCIDR says otherwise.
	Addresses netip.Prefix
	// NodePorts is the range of ports on nodes.
	NodePorts PortRange
}

// A PortRange are Size ports from First on.
type PortRange struct{ First, Size int }

func defaultRanges() Ranges {
	return Ranges{
		Addresses: netip.MustParsePrefix("10.96.0.0/12"),
		NodePorts: PortRange{30000, 2768},
	}
}

// claim gives a service the addresses and ports that it asks for, and takes back what
// it no longer has. The service is valid.
func (r Ranges) claim(c *resource.Claims, obj, old resource.Tree) error {
	var now, before *corev1.Service
	if obj != nil {
		now = decoded[corev1.Service](obj)
	}
	if old != nil {
		before = decoded[corev1.Service](old)
	}
	if err := r.claimAddress(c, now, before); err != nil {
		return err
	}
	if err := r.claimPorts(c, now, before); err != nil {
		return err
	}
	if now != nil {
		given(obj, now)
	}
	return nil
}

// given writes what has been claimed into the tree of a service.
func given(obj resource.Tree, s *corev1.Service) {
	if s.Spec.ClusterIP != "" {
		put(obj, s.Spec.ClusterIP, "spec", "clusterIP")
		put(obj, list(s.Spec.ClusterIPs), "spec", "clusterIPs")
	}
	if s.Spec.HealthCheckNodePort != 0 {
		put(obj, int64(s.Spec.HealthCheckNodePort), "spec", "healthCheckNodePort")
	}
	ports, _ := get(obj, "spec", "ports").([]any)
	for i := range ports {
		if port, ok := ports[i].(resource.Tree); ok && s.Spec.Ports[i].NodePort != 0 {
			port["nodePort"] = int64(s.Spec.Ports[i].NodePort)
		}
	}
}

func list(texts []string) []any {
	out := make([]any, len(texts))
	for i := range texts {
		out[i] = texts[i]
	}
	return out
}
