package builtin

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kubernetesEndpoints are the endpoints of the service kubernetes, and those of its slice.
func (s *server) kubernetesEndpoints() (endpoints, slice string) {
	s.t.Helper()
	get := func(plural string) resource.Tree {
		r := s.request(plural, kubernetesName, "")
		r.Namespace = metav1.NamespaceDefault
		return s.tree(plural, s.must(s.store.Get(s.t.Context(), r, "")))
	}
	var all []string
	for _, subset := range decoded[corev1.Endpoints](get("endpoints")).Subsets {
		for _, address := range subset.Addresses {
			all = append(all, fmt.Sprintf("%s:%d", address.IP, subset.Ports[0].Port))
		}
	}
	var listed []string
	parts := decoded[discoveryv1.EndpointSlice](get("endpointslices"))
	for _, endpoint := range parts.Endpoints {
		listed = append(listed, fmt.Sprintf("%s:%d", endpoint.Addresses[0], *parts.Ports[0].Port))
	}
	return strings.Join(all, " "), string(parts.AddressType) + " " + strings.Join(listed, " ")
}

// kubernetesPort is where the service kubernetes leads to.
func (s *server) kubernetesPort() uint16 {
	s.t.Helper()
	o, _ := s.store.State().Get(object.Key{Resource: serviceResource, Namespace: metav1.NamespaceDefault, Name: kubernetesName})
	if o == nil {
		s.t.Fatal("there is no service kubernetes")
	}
	tree, err := o.Tree()
	if err != nil {
		s.t.Fatal(err)
	}
	return uint16(decoded[corev1.Service](tree).Spec.Ports[0].TargetPort.IntVal)
}

// TestEnsureKubernetes starts servers one after another on the same store.
func TestEnsureKubernetes(t *testing.T) {
	s := newServer(t)
	s.must(s.create("namespaces", `{metadata: {name: default}}`))
	for _, step := range []struct {
		server           string
		shared, leaves   bool
		endpoints, slice string
	}{
		{"10.1.1.1:6443", false, false, "10.1.1.1:6443", "IPv4 10.1.1.1:6443"},
		{"127.0.0.1:7000", false, false, "127.0.0.1:7000", "IPv4 127.0.0.1:7000"},
		{"10.1.1.2:7000", true, false, "10.1.1.2:7000 127.0.0.1:7000", "IPv4 10.1.1.2:7000 127.0.0.1:7000"},
		{"10.1.1.2:7000", true, false, "10.1.1.2:7000 127.0.0.1:7000", "IPv4 10.1.1.2:7000 127.0.0.1:7000"},
		{"10.1.1.3:7001", true, false, "10.1.1.2:7000 127.0.0.1:7000 10.1.1.3:7001", "IPv4 10.1.1.2:7000 127.0.0.1:7000"},
		{"127.0.0.1:7000", true, true, "10.1.1.2:7000 10.1.1.3:7001", "IPv4 10.1.1.2:7000"},
		{"[fd00::1]:6443", false, false, "fd00::1:6443", "IPv6 fd00::1:6443"},
		{"[fd00::1]:6443", false, true, "", "IPv4 "},
	} {
		server := netip.MustParseAddrPort(step.server)
		var err error
		if step.leaves {
			err = LeaveKubernetes(t.Context(), s.store, server)
		} else {
			err = EnsureKubernetes(t.Context(), s.store, server, step.shared, netip.Prefix{})
		}
		if err != nil {
			t.Fatal(err)
		}
		// The service follows its server, if there is but one.
		if got := s.kubernetesPort(); !step.shared && !step.leaves && got != server.Port() {
			t.Errorf("%+v: the service leads to port %d", step, got)
		}
		if endpoints, slice := s.kubernetesEndpoints(); endpoints != step.endpoints || slice != step.slice {
			t.Errorf("%+v: endpoints %q, slice %q", step, endpoints, slice)
		}
	}

	before := s.store.State().Revision()
	if err := EnsureKubernetes(t.Context(), s.store, netip.AddrPort{}, false, netip.Prefix{}); err != nil || s.store.State().Revision() != before {
		t.Errorf("a server that finds everything writes: %v", err)
	}
	if got := s.addresses(); len(got) != 1 || got[0] != "10.96.0.1" {
		t.Errorf("addresses are %v", got)
	}
	if err := s.delete("ipaddresses", "10.96.0.1"); err == nil {
		t.Error("the address of service kubernetes can be deleted")
	}
	r := s.request("services", kubernetesName, "")
	r.Namespace = metav1.NamespaceDefault
	s.must(s.store.Delete(t.Context(), r, nil))
	if got := s.addresses(); len(got) != 0 {
		t.Errorf("addresses are %v", got)
	}
	s.must(s.create("services", `{metadata: {name: a}, spec: {clusterIP: 10.96.0.1, ports: [{port: 80}]}}`))
	if err := EnsureKubernetes(t.Context(), s.store, netip.AddrPort{}, false, netip.Prefix{}); err != nil {
		t.Errorf("the address is another service's: %v", err)
	}
}
