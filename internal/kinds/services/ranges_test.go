package services_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/kinds/kindtest"
	"github.com/kapok-dev/kapok/internal/kinds/services"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// takenPorts returns the node ports that the store has as claimed.
func takenPorts(s *kindtest.Server) []int32 {
	s.T.Helper()
	o, _ := s.Store.State().Get(services.PortsKey)
	if o == nil {
		return nil
	}
	p := &services.PortClaim{PortRange: services.DefaultRanges().NodePorts}
	if err := p.Load(o); err != nil {
		s.T.Fatal(err)
	}
	var ports []int32
	for i := range p.Size {
		if p.Taken.Bit(i) == 1 {
			ports = append(ports, int32(p.First+i))
		}
	}
	return ports
}

func addresses(s *kindtest.Server) []string {
	var all []string
	for o := range s.Store.State().Snapshot(services.AddressResource).All("") {
		all = append(all, o.Key.Name)
	}
	return all
}

func service(s *kindtest.Server, result resource.Result) *corev1.Service {
	s.T.Helper()
	return kind.Decoded[corev1.Service](s.Tree("services", result))
}

// TestConcurrentServices creates and deletes services concurrently.
func TestConcurrentServices(t *testing.T) {
	const services, writers = 500, 8
	s := kindtest.NewServer(t)
	each := func(do func(i int) error) {
		var group sync.WaitGroup
		for w := range writers {
			group.Go(func() {
				for i := w; i < services; i += writers {
					if err := do(i); err != nil {
						t.Errorf("service %d: %v", i, err)
					}
				}
			})
		}
		group.Wait()
	}
	var mu sync.Mutex
	ips, ports := map[string]bool{}, map[int32]bool{}
	each(func(i int) error {
		text := fmt.Sprintf(`{"metadata": {"name": "s%d"}, "spec": {"type": "NodePort", "ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}]}}`, i)
		result, err := s.Store.Create(t.Context(), quiet(s, "services", ""), resource.Body{Data: []byte(text)})
		if err != nil {
			return err
		}
		tree, err := result.Object.Tree()
		if err != nil {
			return err
		}
		service := kind.Decoded[corev1.Service](tree)
		mu.Lock()
		defer mu.Unlock()
		ips[service.Spec.ClusterIP] = true
		for _, port := range service.Spec.Ports {
			ports[port.NodePort] = true
		}
		return nil
	})
	if len(ips) != services || len(ports) != 2*services {
		t.Errorf("%d addresses and %d ports for %d services", len(ips), len(ports), services)
	}
	if got, want := addresses(s), slices.Sorted(maps.Keys(ips)); !slices.Equal(got, want) {
		t.Errorf("IPAddresses are %v, want %v", got, want)
	}
	if got, want := takenPorts(s), slices.Sorted(maps.Keys(ports)); !slices.Equal(got, want) {
		t.Errorf("ports are %v, want %v", got, want)
	}
	each(func(i int) error {
		_, err := s.Store.Delete(t.Context(), quiet(s, "services", fmt.Sprintf("s%d", i)), &metav1.DeleteOptions{})
		return err
	})
	if ips, ports := addresses(s), takenPorts(s); len(ips)+len(ports) > 0 {
		t.Errorf("left over are %v and %v", ips, ports)
	}
}

// quiet returns a request that drops warnings, for concurrent use.
func quiet(s *kindtest.Server, plural, name string) *resource.Request {
	r := s.Request(plural, name, "")
	r.Warn = func(string) {}
	return r
}

// TestServiceClaims changes one service through all types.
func TestServiceClaims(t *testing.T) {
	s := kindtest.NewServer(t)
	const ports = `ports: [{name: t, port: 53, protocol: TCP}, {name: u, port: 53, protocol: UDP}]`
	for _, step := range []struct {
		do    string // an object to create, a merge patch, or "" to delete
		ip    string // cluster IP of the service; * for any
		ports string
		held  int // number of claimed ports
	}{
		{`{metadata: {name: a}, spec: {` + ports + `}}`, "*", "0 0 0", 0},
		{`{spec: {type: NodePort}}`, "*", "* * 0", 2},
		{`{spec: {ports: [{name: t, port: 53, protocol: TCP}, {name: x, port: 54, nodePort: 30000}]}}`, "*", "* 30000 0", 2},
		{`{spec: {type: LoadBalancer, externalTrafficPolicy: Local}}`, "*", "* 30000 *", 3},
		{`{spec: {allocateLoadBalancerNodePorts: false, ports: [{name: t, port: 53, nodePort: 0}, {name: x, port: 54, nodePort: 30000}]}}`, "*", "0 30000 *", 2},
		{`{spec: {type: ExternalName, externalName: a.example.com}}`, "", "0 0 0", 0},
		{`{spec: {type: ClusterIP, clusterIP: 10.96.0.9}}`, "10.96.0.9", "0 0 0", 0},
		{`{spec: {type: NodePort}}`, "10.96.0.9", "* * 0", 2},
		{``, "", "", 0},
		{`{metadata: {name: a}, spec: {type: NodePort, ports: [{name: t, port: 53}, {name: u, port: 53, protocol: UDP, nodePort: 30001}]}}`, "*", "30001 30001 0", 1},
		{``, "", "", 0},
		{`{metadata: {name: a}, spec: {clusterIP: None, ` + ports + `}}`, "None", "0 0 0", 0},
		{``, "", "", 0},
		{`{metadata: {name: a, finalizers: [example.com/wait]}, spec: {type: NodePort, ` + ports + `}}`, "*", "* * 0", 1},
		{``, "*", "", 1},
		{`{metadata: {finalizers: []}}`, "-", "", 0},
	} {
		var got *corev1.Service
		switch {
		case step.do == "":
			if err := s.Delete("services", "a"); err != nil {
				t.Fatal(err)
			}
		case strings.HasPrefix(step.do, "{metadata: {name: a"):
			got = service(s, s.Must(s.Create("services", step.do)))
		default:
			got = service(s, s.Must(s.Patch("services", "a", "", types.MergePatchType, step.do)))
		}
		held := takenPorts(s)
		if len(held) != step.held {
			t.Errorf("%s: holds ports %v", step.do, held)
		}
		if ips := addresses(s); len(ips) == 1 != (step.ip != "" && step.ip != "None" && step.ip != "-") {
			t.Errorf("%s: holds addresses %v", step.do, ips)
		}
		if got == nil || step.ip == "-" {
			continue
		}
		if !fits(step.ip, got.Spec.ClusterIP) {
			t.Errorf("%s: address is %s", step.do, got.Spec.ClusterIP)
		}
		for i, want := range strings.Fields(step.ports) {
			port := got.Spec.HealthCheckNodePort
			if i < 2 {
				port = got.Spec.Ports[i].NodePort
			}
			if want == "0" && port != 0 || want != "0" && (!fits(want, fmt.Sprint(port)) || !slices.Contains(held, port)) {
				t.Errorf("%s: port %d is %d", step.do, i, port)
			}
		}
	}
}

func fits(want, got string) bool { return want == got || want == "*" && got != "" && got != "0" }

func TestServiceClaimsRefused(t *testing.T) {
	s := kindtest.NewServer(t)
	s.Must(s.Create("services", `{metadata: {name: a}, spec: {type: NodePort, clusterIP: 10.96.0.7, ports: [{port: 80, nodePort: 30080}]}}`))
	for _, c := range []struct{ spec, want string }{
		{`{clusterIP: 10.96.0.7, ports: [{port: 80}]}`, `spec.clusterIPs: Invalid value: ["10.96.0.7"]: failed to allocate IP 10.96.0.7: provided IP is already allocated`},
		{`{clusterIP: 10.112.0.1, ports: [{port: 80}]}`, `failed to allocate IP 10.112.0.1: the provided network does not match the current range`},
		{`{clusterIP: 10.96.0.0, ports: [{port: 80}]}`, `failed to allocate IP 10.96.0.0: the provided network does not match the current range`},
		{`{clusterIP: 10.111.255.255, ports: [{port: 80}]}`, `failed to allocate IP 10.111.255.255: the provided network does not match the current range`},
		{`{type: NodePort, ports: [{port: 80, nodePort: 30080}]}`, `spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated`},
		{`{type: NodePort, ports: [{port: 80, nodePort: 80}]}`, `provided port is not in the valid range. The range of valid ports is 30000-32767`},
		{`{type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 30080, ports: [{port: 80}]}`,
			`Internal error occurred: failed to allocate requested HealthCheck NodePort 30080: provided port is already allocated`},
	} {
		if _, err := s.Create("services", `{metadata: {name: b}, spec: `+c.spec+`}`); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.spec, err)
		}
	}
	if ips, ports := addresses(s), takenPorts(s); len(ips) != 1 || len(ports) != 1 {
		t.Errorf("rejected requests have claimed some of %v and %v", ips, ports)
	}
}

// TestServiceDryRun checks that a dry run claims nothing.
func TestServiceDryRun(t *testing.T) {
	s := kindtest.NewServer(t)
	r := s.Request("services", "", "")
	r.DryRun = true
	got := service(s, s.Must(s.Store.Create(t.Context(), r, s.Body(`{metadata: {name: a}, spec: {type: NodePort, ports: [{name: a, port: 80}, {name: b, port: 81}]}}`))))
	if got.Spec.ClusterIP != "10.96.0.0" || got.Spec.Ports[0].NodePort != 32769 || got.Spec.Ports[1].NodePort != 32770 {
		t.Errorf("spec is %+v", got.Spec)
	}
	if len(addresses(s))+len(takenPorts(s)) > 0 {
		t.Error("a dry run has claimed something")
	}
}

// TestHeldAddress checks that the IPAddress of a service cannot be deleted or changed.
func TestHeldAddress(t *testing.T) {
	s := kindtest.NewServer(t)
	s.Must(s.Create("services", `{metadata: {name: a}, spec: {clusterIP: 10.96.0.7, ports: [{port: 80}]}}`))
	if err := s.Delete("ipaddresses", "10.96.0.7"); err == nil || !strings.Contains(err.Error(), "service ns/a has this address") {
		t.Errorf("deleted: %v", err)
	}
	s.Must(s.Create("ipaddresses", `{metadata: {name: 10.96.0.8}, spec: {parentRef: {resource: services, namespace: ns, name: a}}}`))
	if err := s.Delete("ipaddresses", "10.96.0.8"); err != nil {
		t.Errorf("an address that the service does not have: %v", err)
	}
	if err := s.Delete("services", "a"); err != nil || len(addresses(s)) > 0 {
		t.Errorf("%v, left over are %v", err, addresses(s))
	}
}

// TestServiceCIDRs checks that addresses come from the ranges of ServiceCIDRs.
func TestServiceCIDRs(t *testing.T) {
	s := kindtest.NewServer(t)
	s.Must(s.Create("servicecidrs", `{metadata: {name: kubernetes}, spec: {cidrs: [10.1.0.0/30]}}`))
	for i, want := range []bool{true, true, false} {
		_, err := s.Create("services", fmt.Sprintf(`{metadata: {name: s%d}, spec: {ports: [{port: 80}]}}`, i))
		if (err == nil) != want {
			t.Errorf("service %d: %v", i, err)
		}
	}
	if got := addresses(s); !slices.Equal(got, []string{"10.1.0.1", "10.1.0.2"}) {
		t.Errorf("addresses are %v", got)
	}
	s.Must(s.Create("servicecidrs", `{metadata: {name: more}, spec: {cidrs: [10.2.0.0/24]}}`))
	s.Must(s.Patch("servicecidrs", "more", "status", types.MergePatchType,
		`{status: {conditions: [{type: Ready, status: "False", reason: r, message: m, lastTransitionTime: "2026-05-06T07:03:09Z"}]}}`))
	if _, err := s.Create("services", `{metadata: {name: b}, spec: {ports: [{port: 80}]}}`); err == nil {
		t.Error("an address of a range that is not ready")
	}
	s.Must(s.Patch("servicecidrs", "more", "status", types.MergePatchType, `{status: {conditions: null}}`))
	if got := service(s, s.Must(s.Create("services", `{metadata: {name: b}, spec: {ports: [{port: 80}]}}`))); !strings.HasPrefix(got.Spec.ClusterIP, "10.2.0.") {
		t.Errorf("address is %s", got.Spec.ClusterIP)
	}
}

// TestPortsOfAnotherRange loads ports that were stored for a range with another first port.
func TestPortsOfAnotherRange(t *testing.T) {
	for _, c := range []struct{ stored, first, taken int }{{30000, 30000, 30005}, {30000, 29990, 30005}, {29000, 30000, 30005}, {31000, 30000, 31001}} {
		from := &services.PortClaim{PortRange: services.PortRange{First: c.stored, Size: 2000}}
		from.Set(int32(c.taken), 1)
		o, err := object.New(services.PortsKey, from.Tree(), 0, kindtest.Now)
		if err != nil {
			t.Fatal(err)
		}
		p := &services.PortClaim{PortRange: services.PortRange{First: c.first, Size: 3000}}
		if err := p.Load(o); err != nil {
			t.Fatal(err)
		}
		if err := p.Claim(int32(c.taken)); err != services.ErrPortAllocated || p.Claim(int32(c.taken+1)) != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
