package process

import (
	"os"
	"testing"

	"github.com/kapok-dev/kapok/client"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestHosts checks which names pods have in /etc/hosts.
func TestHosts(t *testing.T) {
	service := func(namespace, name, ip string) corev1.Service {
		return corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.ServiceSpec{ClusterIP: ip}}
	}
	external := service("a", "external", "")
	external.Spec.Type = corev1.ServiceTypeExternalName
	n := names{
		system:   []byte("127.0.0.1 localhost"),
		services: []corev1.Service{service("a", "web", "127.96.0.5"), service("b", "web", "127.96.0.6"), service("a", "db", corev1.ClusterIPNone), external, service("a", "new", "")},
		slices: map[client.ObjectKey][]discoveryv1.EndpointSlice{{Namespace: "a", Name: "db"}: {{Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{"127.77.0.1"}, Hostname: new("db-0"), Conditions: discoveryv1.EndpointConditions{Ready: new(true)}},
			{Addresses: []string{"127.77.0.2"}, Conditions: discoveryv1.EndpointConditions{Ready: new(false)}},
			{Addresses: []string{"127.77.0.3"}},
		}}, {AddressType: discoveryv1.AddressTypeFQDN, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"example.com"}}}}}},
	}
	const own = "127.0.0.1 localhost\n127.77.0.9 p\n"
	const cluster = "127.96.0.5 web.a.svc.cluster.local web.a.svc web.a web\n127.96.0.6 web.b.svc.cluster.local web.b.svc web.b\n" +
		"127.77.0.1 db-0.db.a.svc.cluster.local db-0.db.a.svc db-0.db.a db-0.db db.a.svc.cluster.local db.a.svc db.a db\n" +
		"127.77.0.3 db.a.svc.cluster.local db.a.svc db.a db\n"
	for name, test := range map[string]struct {
		spec corev1.PodSpec
		want string
	}{
		"default":           {corev1.PodSpec{}, own + cluster},
		"subdomain":         {corev1.PodSpec{Hostname: "h", Subdomain: "db"}, "127.0.0.1 localhost\n127.77.0.9 h.db.a.svc.cluster.local h\n" + cluster},
		"hostAliases":       {corev1.PodSpec{DNSPolicy: corev1.DNSNone, HostAliases: []corev1.HostAlias{{IP: "1.2.3.4", Hostnames: []string{"x", "y"}}}}, own + "1.2.3.4 x y\n"},
		"policy Default":    {corev1.PodSpec{DNSPolicy: corev1.DNSDefault}, own},
		"network of host":   {corev1.PodSpec{DNSPolicy: corev1.DNSClusterFirst, HostNetwork: true}, "127.0.0.1 localhost\n"},
		"with host network": {corev1.PodSpec{DNSPolicy: corev1.DNSClusterFirstWithHostNet, HostNetwork: true}, "127.0.0.1 localhost\n" + cluster},
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p"}, Spec: test.spec}
		if got := string(hostsOf(p, "127.77.0.9", n)); got != test.want {
			t.Errorf("%s:\ngot:\n%s\nwant:\n%s", name, got, test.want)
		}
	}
}

// TestOverwrite checks that a file is changed in place, and follows no link.
func TestOverwrite(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := root.WriteFile("hosts", []byte("a long line\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	before, err := root.Stat("hosts")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"short\n", "", "another line that is longer\n"} {
		if err := overwrite(root, "hosts", []byte(want)); err != nil {
			t.Fatal(err)
		}
		if got, err := root.ReadFile("hosts"); err != nil || string(got) != want {
			t.Errorf("the file has %q, %v, want %q", got, err, want)
		}
	}
	if after, err := root.Stat("hosts"); err != nil || !os.SameFile(before, after) {
		t.Errorf("the file is another one: %v", err)
	}
	if err := root.Symlink("hosts", "link"); err != nil {
		t.Fatal(err)
	}
	if err := overwrite(root, "link", nil); err == nil {
		t.Error("a link is followed")
	}
}
