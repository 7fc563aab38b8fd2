package replicas

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// TestServices checks that servers assign no address and no port twice, and that all of them are
// endpoints of the service kubernetes.
func TestServices(t *testing.T) {
	t.Parallel()
	const each = 40
	c := startCluster(t, 1)
	servers := c.startServers(t, 3)
	const services = "/api/v1/namespaces/default/services"
	var group sync.WaitGroup
	for i, s := range servers {
		group.Go(func() {
			for n := range each {
				name := fmt.Sprintf("s-%d-%d", i, n)
				body := fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"type":"NodePort","ports":[{"name":"a","port":80},{"name":"b","port":81}]}}`, name)
				if got, err := s.try(t.Context(), "POST", services, body); err != nil || got.status != 201 {
					t.Errorf("%s: %v %v", name, got, err)
				}
				if n%2 == 0 {
					if got, err := s.try(t.Context(), "DELETE", services+"/"+name, ""); err != nil || got.status != 200 {
						t.Errorf("%s: %v %v", name, got, err)
					}
				}
			}
		})
	}
	group.Wait()
	var list corev1.ServiceList
	if err := json.Unmarshal([]byte(servers[1].must(t, 200, "GET", services, "").body), &list); err != nil {
		t.Fatal(err)
	}
	ips, ports := map[string]bool{}, map[int32]bool{}
	for _, s := range list.Items {
		ips[s.Spec.ClusterIP] = true
		for _, port := range s.Spec.Ports {
			ports[port.NodePort] = true
		}
	}
	delete(ports, 0)
	if want := len(servers) * each / 2; len(list.Items) != want+1 || len(ips) != want+1 || len(ports) != 2*want {
		t.Errorf("%d services have %d addresses and %d ports", len(list.Items), len(ips), len(ports))
	}
	if got := behindKubernetes(t, servers[0]); got != 3 {
		t.Errorf("%d servers are behind service kubernetes", got)
	}
	if err := servers[2].stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "a server that has stopped is no endpoint", func() bool { return behindKubernetes(t, servers[0]) == 2 })
}

// TestPortsOfKubeAPIServer checks that node ports assigned by a kube-apiserver are not assigned
// again, and that it finds those assigned by Kapok.
func TestPortsOfKubeAPIServer(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1)
	etcd := c.client(t)
	const key = "/registry/ranges/servicenodeports"
	taken := new(big.Int).SetBit(new(big.Int), 5, 1) // 30005
	put(t, etcd, key, inProtobuf(t, &corev1.RangeAllocation{Range: "30000-32767", Data: taken.Bytes()}))
	s := c.startServer(t)
	const services = "/api/v1/namespaces/default/services"
	const body = `{"metadata":{"name":"s"},"spec":{"type":"NodePort","ports":[{"port":80,"nodePort":%d}]}}`
	if got := s.must(t, 422, "POST", services, fmt.Sprintf(body, 30005)); !strings.Contains(got.body, "provided port is already allocated") {
		t.Errorf("answer is %s", got.body)
	}
	s.must(t, 201, "POST", services, fmt.Sprintf(body, 30007))
	var after corev1.RangeAllocation
	if err := json.Unmarshal([]byte(stored(t, etcd, key)), &after); err != nil {
		t.Fatal(err)
	}
	if got := new(big.Int).SetBytes(after.Data); after.Kind != "RangeAllocation" || after.Range != "30000-32767" || got.Cmp(taken.SetBit(taken, 7, 1)) != 0 {
		t.Errorf("stored is %+v", after)
	}
}

// behindKubernetes counts the endpoints of the service kubernetes.
func behindKubernetes(t *testing.T, s *server) int {
	t.Helper()
	var endpoints corev1.Endpoints
	if err := json.Unmarshal([]byte(s.must(t, 200, "GET", "/api/v1/namespaces/default/endpoints/kubernetes", "").body), &endpoints); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, subset := range endpoints.Subsets {
		n += len(subset.Addresses)
	}
	return n
}
