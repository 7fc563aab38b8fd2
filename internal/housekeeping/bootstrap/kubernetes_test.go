package bootstrap_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/housekeeping/bootstrap"
	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/kinds/kindtest"
	"github.com/kapok-dev/kapok/internal/kinds/services"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kubernetesEndpoints returns the endpoints of the service kubernetes, and those of its slice.
func kubernetesEndpoints(s *kindtest.Server) (endpoints, slice string) {
	s.T.Helper()
	get := func(plural string) resource.Tree {
		r := s.Request(plural, services.KubernetesName, "")
		r.Namespace = metav1.NamespaceDefault
		return s.Tree(plural, s.Must(s.Store.Get(s.T.Context(), r, "")))
	}
	var all []string
	for _, subset := range kind.Decoded[corev1.Endpoints](get("endpoints")).Subsets {
		for _, address := range subset.Addresses {
			all = append(all, fmt.Sprintf("%s:%d", address.IP, subset.Ports[0].Port))
		}
	}
	var listed []string
	parts := kind.Decoded[discoveryv1.EndpointSlice](get("endpointslices"))
	for _, endpoint := range parts.Endpoints {
		listed = append(listed, fmt.Sprintf("%s:%d", endpoint.Addresses[0], *parts.Ports[0].Port))
	}
	return strings.Join(all, " "), string(parts.AddressType) + " " + strings.Join(listed, " ")
}

// kubernetesPort returns the target port of the service kubernetes.
func kubernetesPort(s *kindtest.Server) uint16 {
	s.T.Helper()
	o, _ := s.Store.State().Get(object.Key{Resource: services.ServiceResource, Namespace: metav1.NamespaceDefault, Name: services.KubernetesName})
	if o == nil {
		s.T.Fatal("there is no service kubernetes")
	}
	tree, err := o.Tree()
	if err != nil {
		s.T.Fatal(err)
	}
	return uint16(kind.Decoded[corev1.Service](tree).Spec.Ports[0].TargetPort.IntVal)
}

func addresses(s *kindtest.Server) []string {
	var all []string
	for o := range s.Store.State().Snapshot(services.AddressResource).All("") {
		all = append(all, o.Key.Name)
	}
	return all
}

// TestEnsureKubernetes starts servers one after another on the same store.
func TestEnsureKubernetes(t *testing.T) {
	s := kindtest.NewServer(t)
	s.Must(s.Create("namespaces", `{metadata: {name: default}}`))
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
			err = bootstrap.LeaveKubernetes(t.Context(), s.Store, server)
		} else {
			err = bootstrap.EnsureKubernetes(t.Context(), s.Store, server, step.shared, netip.Prefix{})
		}
		if err != nil {
			t.Fatal(err)
		}
		// Without other servers the service follows its server.
		if got := kubernetesPort(s); !step.shared && !step.leaves && got != server.Port() {
			t.Errorf("%+v: the service leads to port %d", step, got)
		}
		if endpoints, slice := kubernetesEndpoints(s); endpoints != step.endpoints || slice != step.slice {
			t.Errorf("%+v: endpoints %q, slice %q", step, endpoints, slice)
		}
	}

	before := s.Store.State().Revision()
	if err := bootstrap.EnsureKubernetes(t.Context(), s.Store, netip.AddrPort{}, false, netip.Prefix{}); err != nil || s.Store.State().Revision() != before {
		t.Errorf("a server that finds everything writes: %v", err)
	}
	if got := addresses(s); len(got) != 1 || got[0] != "10.96.0.1" {
		t.Errorf("addresses are %v", got)
	}
	if err := s.Delete("ipaddresses", "10.96.0.1"); err == nil {
		t.Error("the address of service kubernetes can be deleted")
	}
	r := s.Request("services", services.KubernetesName, "")
	r.Namespace = metav1.NamespaceDefault
	s.Must(s.Store.Delete(t.Context(), r, nil))
	if got := addresses(s); len(got) != 0 {
		t.Errorf("addresses are %v", got)
	}
	s.Must(s.Create("services", `{metadata: {name: a}, spec: {clusterIP: 10.96.0.1, ports: [{port: 80}]}}`))
	if err := bootstrap.EnsureKubernetes(t.Context(), s.Store, netip.AddrPort{}, false, netip.Prefix{}); err != nil {
		t.Errorf("the address is another service's: %v", err)
	}
}
