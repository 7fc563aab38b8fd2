package services

import (
	"net/netip"

	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
)

// KubernetesName is the name of the service by which pods reach the server, and of its endpoints.
// DefaultServiceCIDR is the name of the range of cluster IPs that is created at the start.
const (
	KubernetesName     = "kubernetes"
	DefaultServiceCIDR = "kubernetes"
)

// Ranges are the ranges of the cluster IPs and node ports of services. Both are claimed in the
// commit that writes the service, and released in the commit that deletes it: no address or port is
// given twice, whichever server writes, and none leaks.
//
// A cluster IP is claimed by an IPAddress object of that name, which can be created only once. Node
// ports are bits of one object, which is not served and has the key that kube-apiserver uses
// (servicenodeports), for two reasons: a commit on etcd writes at most one object of a resource,
// while a service may have many ports; and ports that a kube-apiserver has allocated in the same
// store are known. Services with node ports are therefore written one after another.
type Ranges struct {
	// Addresses is the range of cluster IPs until a ServiceCIDR defines another.
	Addresses netip.Prefix
	// NodePorts is the range of node ports.
	NodePorts PortRange
}

// A PortRange is Size ports, starting with First.
type PortRange struct{ First, Size int }

// DefaultRanges returns the ranges of kube-apiserver: 10.96.0.0/12 and 30000-32767.
func DefaultRanges() Ranges {
	return Ranges{
		Addresses: netip.MustParsePrefix("10.96.0.0/12"),
		NodePorts: PortRange{30000, 2768},
	}
}

// Claim claims the addresses and ports of a valid service, and releases those that it no longer
// has.
func (r Ranges) Claim(c *resource.Claims, obj, old resource.Tree) error {
	var now, before *corev1.Service
	if obj != nil {
		now = kind.Decoded[corev1.Service](obj)
	}
	if old != nil {
		before = kind.Decoded[corev1.Service](old)
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

// given writes claimed addresses and ports into the tree of a service.
func given(obj resource.Tree, s *corev1.Service) {
	if s.Spec.ClusterIP != "" {
		kind.Put(obj, s.Spec.ClusterIP, "spec", "clusterIP")
		kind.Put(obj, list(s.Spec.ClusterIPs), "spec", "clusterIPs")
	}
	if s.Spec.HealthCheckNodePort != 0 {
		kind.Put(obj, int64(s.Spec.HealthCheckNodePort), "spec", "healthCheckNodePort")
	}
	ports, _ := kind.Get(obj, "spec", "ports").([]any)
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
