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

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestPublishKubernetes starts servers with and without a node port one after another on the same
// store.
func TestPublishKubernetes(t *testing.T) {
	s := kindtest.NewServer(t)
	s.Must(s.Create("namespaces", `{metadata: {name: default}}`))
	published := func() string {
		r := s.Request("services", services.KubernetesName, "")
		r.Namespace = metav1.NamespaceDefault
		spec := kind.Decoded[corev1.Service](s.Tree("services", s.Must(s.Store.Get(t.Context(), r, "")))).Spec
		return fmt.Sprintf("%s %s %d to %d", spec.Type, spec.Ports[0].Name, spec.Ports[0].NodePort, spec.Ports[0].TargetPort.IntVal)
	}
	if err := bootstrap.PublishKubernetes(t.Context(), s.Store, 30443); err != nil {
		t.Errorf("without the service: %v", err)
	}
	server := netip.MustParseAddrPort("10.1.1.1:6443")
	start := func() {
		t.Helper()
		if err := bootstrap.EnsureKubernetes(t.Context(), s.Store, server, false, netip.Prefix{}); err != nil {
			t.Fatal(err)
		}
	}
	start()
	s.Must(s.Create("services", `{metadata: {name: other}, spec: {type: NodePort, ports: [{port: 80, nodePort: 30080}]}}`))
	if err := bootstrap.PublishKubernetes(t.Context(), s.Store, 30080); err == nil || !strings.Contains(err.Error(), "provided port is already allocated") {
		t.Errorf("a port of another service: %v", err)
	}
	for _, port := range []int{30443, 30444} { // the second has no effect
		if err := bootstrap.PublishKubernetes(t.Context(), s.Store, port); err != nil {
			t.Fatal(err)
		}
		if got := published(); got != "NodePort https 30443 to 6443" {
			t.Errorf("port %d: %s", port, got)
		}
	}
	if _, err := s.Create("services", `{metadata: {name: late}, spec: {type: NodePort, ports: [{port: 80, nodePort: 30443}]}}`); err == nil {
		t.Error("another service gets the port as well")
	}
	server = netip.MustParseAddrPort("10.1.1.1:7000")
	start()
	if got := published(); got != "NodePort https 30443 to 7000" {
		t.Errorf("after another start: %s", got)
	}
}
