package server_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kapok-dev/kapok"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestServices checks that no service gets an address or a port of another one.
func TestServices(t *testing.T) {
	const writers, each = 8, 60
	_, clients := typed(t, kapok.Options{})
	services := clients.CoreV1().Services("default")
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for i := range each {
				name := fmt.Sprintf("s-%d-%d", w, i)
				_, err := services.Create(t.Context(), &corev1.Service{
					ObjectMeta: metav1.ObjectMeta{Name: name},
					Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Name: "a", Port: 80}, {Name: "b", Port: 81}}},
				}, metav1.CreateOptions{})
				if err == nil && i%3 == 0 {
					err = services.Delete(t.Context(), name, metav1.DeleteOptions{})
				}
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
	group.Wait()
	list, err := services.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	addresses, err := clients.NetworkingV1().IPAddresses().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const left = writers * each * 2 / 3
	holders, ports := map[string]string{}, map[int32]string{}
	for _, s := range list.Items {
		holders[s.Spec.ClusterIP] = s.Name
		for _, port := range s.Spec.Ports {
			if port.NodePort != 0 {
				ports[port.NodePort] = s.Name
			}
		}
	}
	if n := len(list.Items); n != left+1 || len(holders) != n || len(addresses.Items) != n || len(ports) != 2*left {
		t.Errorf("%d services have %d addresses and %d ports; there are %d addresses", n, len(holders), len(ports), len(addresses.Items))
	}
	for _, a := range addresses.Items {
		if holders[a.Name] != a.Spec.ParentRef.Name {
			t.Errorf("address %s refers to service %s, but service %q has it", a.Name, a.Spec.ParentRef.Name, holders[a.Name])
		}
	}
}

// TestServiceKubernetes checks that the service has the server's address, also after a restart on
// another one.
func TestServiceKubernetes(t *testing.T) {
	dir := t.TempDir()
	var uid string
	for range 2 {
		server, clients := typed(t, kapok.Options{DataDir: dir, Listen: "127.0.0.1:0"})
		service, err := clients.CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if uid == "" {
			uid = string(service.UID)
		}
		if service.Spec.ClusterIP != "10.96.0.1" || string(service.UID) != uid {
			t.Errorf("service is %+v", service)
		}
		at := netip.MustParseAddrPort(server.Address())
		slice, err := clients.DiscoveryV1().EndpointSlices("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(slice.Endpoints) != 1 || !slices.Equal(slice.Endpoints[0].Addresses, []string{at.Addr().String()}) || *slice.Ports[0].Port != int32(at.Port()) {
			t.Errorf("the server's address is %s, but the slice has %+v %+v", at, slice.Endpoints, slice.Ports)
		}
		if _, err := clients.CoreV1().Services("default").Create(t.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "thief"},
			Spec:       corev1.ServiceSpec{ClusterIP: "10.96.0.1", Ports: []corev1.ServicePort{{Port: 80}}},
		}, metav1.CreateOptions{}); err == nil || !strings.Contains(err.Error(), "provided IP is already allocated") {
			t.Errorf("another service with its address: %v", err)
		}
		if err := server.Stop(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRetiredNetworking writes an Ingress and an EndpointSlice in their retired versions.
func TestRetiredNetworking(t *testing.T) {
	r := startRaw(t, kapok.Options{RetiredAPIs: true})
	const ingresses = "/apis/%s/namespaces/default/ingresses"
	for _, version := range []string{"networking.k8s.io/v1beta1", "extensions/v1beta1"} {
		name := strings.Split(version, ".")[0][:3]
		r.must(201, "POST", fmt.Sprintf(ingresses, version), fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"backend":{"serviceName":"s","servicePort":80},
			"rules":[{"http":{"paths":[{"path":"/a","backend":{"serviceName":"s","servicePort":"web"}}]}}]}}`, name))
		stored := r.must(200, "GET", fmt.Sprintf(ingresses, "networking.k8s.io/v1")+"/"+name, "")
		if got := field(t, stored, "spec", "defaultBackend", "service", "port", "number"); got != float64(80) || !strings.Contains(stored, `"pathType":"ImplementationSpecific"`) {
			t.Errorf("%s is stored as %s", version, stored)
		}
		refused := r.must(422, "POST", fmt.Sprintf(ingresses, version), `{"metadata":{"name":"bad"},"spec":{}}`)
		if !strings.Contains(refused, "must be specified") {
			t.Errorf("%s: rejected with %s", version, refused)
		}
	}
	r.must(201, "POST", "/apis/networking.k8s.io/v1beta1/ingressclasses", `{"metadata":{"name":"c"},"spec":{"controller":"example.com/c"}}`)
	r.must(201, "POST", "/apis/extensions/v1beta1/namespaces/default/networkpolicies", `{"metadata":{"name":"p"},"spec":{"podSelector":{}}}`)
	const slices = "/apis/discovery.k8s.io/%s/namespaces/default/endpointslices"
	r.must(201, "POST", fmt.Sprintf(slices, "v1beta1"), `{"metadata":{"name":"old"},"addressType":"IPv4","ports":[],
		"endpoints":[{"addresses":["10.0.0.1"],"topology":{"topology.kubernetes.io/zone":"z"}}]}`)
	if got := r.must(200, "GET", fmt.Sprintf(slices, "v1")+"/old", ""); !strings.Contains(got, `"zone":"z"`) {
		t.Errorf("slice is %s", got)
	}
}

// TestServiceAddresses assigns addresses of the range in the options.
func TestServiceAddresses(t *testing.T) {
	server, clients := typed(t, kapok.Options{ServiceAddresses: netip.MustParsePrefix("10.0.0.0/24")})
	itself, err := clients.CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil || itself.Spec.ClusterIP != "10.0.0.1" {
		t.Errorf("the service kubernetes has %q, %v", itself.Spec.ClusterIP, err)
	}
	for address, allowed := range map[string]bool{"10.0.0.10": true, "10.96.0.10": false} {
		_, err := clients.CoreV1().Services("default").Create(t.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "s-"},
			Spec:       corev1.ServiceSpec{ClusterIP: address, Ports: []corev1.ServicePort{{Port: 80}}},
		}, metav1.CreateOptions{})
		if (err == nil) != allowed {
			t.Errorf("%s: %v", address, err)
		}
	}
	if err := server.Stop(); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"10.0.0.0/8", "10.0.0.0/31", "fd00::/112"} {
		if _, err := kapok.Start(t.Context(), kapok.Options{ServiceAddresses: netip.MustParsePrefix(bad)}); err == nil {
			t.Errorf("%s is in use", bad)
		}
	}
}

// TestLoopbackEndpoints checks that endpoints have loopback addresses only if the server permits
// it, and link-local ones never.
func TestLoopbackEndpoints(t *testing.T) {
	for _, permitted := range []bool{false, true} {
		for _, retired := range []bool{false, true} {
			_, clients := typed(t, kapok.Options{RetiredAPIs: retired, Nodes: kapok.NodeOptions{LoopbackEndpoints: permitted}})
			for ip, valid := range map[string]bool{"127.77.0.1": permitted, "169.254.0.1": false, "10.0.0.1": true} {
				meta := metav1.ObjectMeta{Name: "at-" + ip}
				slice := &discoveryv1.EndpointSlice{ObjectMeta: meta, AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{ip}}}}
				_, err := clients.DiscoveryV1().EndpointSlices("default").Create(t.Context(), slice, metav1.CreateOptions{})
				if (err == nil) != valid || err != nil && !apierrors.IsInvalid(err) {
					t.Errorf("permitted: %t, retired: %t, slice with %s: %v", permitted, retired, ip, err)
				}
				endpoints := &corev1.Endpoints{ObjectMeta: meta, Subsets: []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: ip}}}}}
				_, err = clients.CoreV1().Endpoints("default").Create(t.Context(), endpoints, metav1.CreateOptions{})
				if (err == nil) != valid || err != nil && !apierrors.IsInvalid(err) {
					t.Errorf("permitted: %t, retired: %t, endpoints with %s: %v", permitted, retired, ip, err)
				}
			}
			_, err := clients.DiscoveryV1beta1().EndpointSlices("default").List(t.Context(), metav1.ListOptions{})
			if (err == nil) != retired {
				t.Errorf("permitted: %t, retired: %t, v1beta1: %v", permitted, retired, err)
			}
		}
	}
}
