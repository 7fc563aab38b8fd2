package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/examples/internal/exampletest"
	v1 "github.com/kapok-dev/kapok/examples/network/api/v1"
	"github.com/kapok-dev/kapok/examples/network/provider"
	"github.com/kapok-dev/kapok/examples/network/provider/memory"
	"github.com/kapok-dev/kapok/examples/network/provider/neutron"
	"github.com/kapok-dev/kapok/examples/network/provider/neutron/neutrontest"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var key = types.NamespacedName{Namespace: "default", Name: "example-network"}

// The whole life of the tutorial: the controller comes first, then the kind, then a Network, which
// is made, changed and deleted.
func TestTutorial(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		w.Start(t)
		printed := &exampletest.Log{}
		networks := memory.New(printed)
		w.run(settings{period: 0}, networks)

		// Without its CRD the controller retries.
		time.Sleep(time.Minute)
		w.Logged("INFO Setting up event handlers", "INFO Starting Network control loop", "INFO Waiting for informer caches to sync")
		if missed := w.Log.Count(`no matches for kind "Network" in version "samplecrd.k8s.io/v1"`); missed < 2 {
			t.Errorf("%d lines say that the kind is missing, want several:\n%s", missed, w.Log)
		}
		if w.Log.Count("Starting workers") > 0 {
			t.Error("workers start before the cache has synced")
		}

		// With it: no restart is needed.
		w.Apply("crd/samplecrd.k8s.io_networks.yaml")
		time.Sleep(2 * time.Minute)
		w.Logged("INFO Starting workers", "INFO Started workers")
		w.Log.Clear()

		w.Apply("samples/example-network.yaml")
		time.Sleep(time.Second)
		network := w.network()
		w.Logged(
			`INFO [Neutron] Try to process network: &v1.Network{TypeMeta:`, `Name:"example-network"`, `Namespace:"default"`,
			`ResourceVersion:"`, `Spec:v1.NetworkSpec{Cidr:"192.168.0.0/16", Gateway:"192.168.0.1"}`,
			"INFO Successfully synced 'default/example-network'")
		if w.Log.Count("Try to process") != 1 || w.Log.Count("Successfully synced") != 1 {
			t.Errorf("more happens than is needed:\n%s", w.Log)
		}
		if c := w.ready(); c.Status != metav1.ConditionTrue || c.Reason != v1.ReasonInSync || network.Status.ID != "memory-1" {
			t.Errorf("status: %+v", network.Status)
		}
		w.Log.Clear()

		w.Apply("samples/example-network-changed.yaml")
		time.Sleep(time.Second)
		w.Logged("INFO [Neutron] Try to process network: &v1.Network{", `Spec:v1.NetworkSpec{Cidr:"192.168.1.0/16", Gateway:"192.168.1.1"}`,
			"INFO Successfully synced 'default/example-network'")
		if changed := w.network(); w.Log.Count(`ResourceVersion:"`+network.ResourceVersion) > 0 || changed.Generation != network.Generation+1 {
			t.Errorf("generation %d, want one more than %d, and another resourceVersion than %s:\n%s", changed.Generation, network.Generation,
				network.ResourceVersion, w.Log)
		}
		w.Log.Clear()

		w.Must(w.Client.Delete(t.Context(), network))
		time.Sleep(time.Second)
		w.Logged(
			"INFO Network: default/example-network is being deleted, will delete it from Neutron ...",
			"INFO [Neutron] Deleting network: default/example-network ...",
			"INFO Successfully synced 'default/example-network'",
			"INFO Network: default/example-network does not exist in local cache, will delete it from Neutron ...",
			"INFO [Neutron] Deleting network: default/example-network ...",
			"INFO Successfully synced 'default/example-network'")
		if err := w.Client.Get(t.Context(), key, network); !apierrors.IsNotFound(err) {
			t.Errorf("the Network after it was deleted: %v", err)
		}
		w.Stop()
		const want = `[memory] create default/example-network: cidr 192.168.0.0/16, gateway 192.168.0.1
[memory] update default/example-network: cidr 192.168.0.0/16, gateway 192.168.0.1 -> cidr 192.168.0.0/16, gateway 192.168.1.1
[memory] delete default/example-network
`
		if got := printed.String(); got != want {
			t.Errorf("the provider printed\n%swant\n%s", got, want)
		}
	})
}

// The kind goes while the controller runs, with all Networks, and comes back: no restart is needed
// then either.
func TestKindGoesAndComes(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		w.Start(t)
		w.Apply("crd/samplecrd.k8s.io_networks.yaml")
		w.Apply("samples/example-network.yaml")
		networks := memory.New(&exampletest.Log{})
		w.run(settings{}, networks)
		time.Sleep(time.Second)
		for range 2 {
			w.Must(w.Client.Delete(t.Context(), w.Manifest("crd/samplecrd.k8s.io_networks.yaml")))
			time.Sleep(10 * time.Minute)
			if _, err := networks.Get(t.Context(), key); err != provider.ErrNotFound {
				t.Errorf("without the kind: %v", err)
			}
			w.Logged("WARN Failed to watch", "the server could not find the requested resource")
			w.Apply("crd/samplecrd.k8s.io_networks.yaml")
			w.Apply("samples/example-network.yaml")
			time.Sleep(2 * time.Minute)
			if c := w.ready(); c.Status != metav1.ConditionTrue {
				t.Errorf("after it came back: %+v", c)
			}
			w.Log.Clear()
		}
		w.Stop()
	})
}

// A resync brings each object again, with the resourceVersion that it had: nothing happens. What
// changes the status is no news either.
func TestResyncIsIgnored(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		w.Start(t)
		w.Apply("crd/samplecrd.k8s.io_networks.yaml")
		w.Apply("samples/example-network.yaml")
		resync := 30 * time.Second
		var s settings
		s.manager.Cache.SyncPeriod = &resync
		w.run(s, memory.New(&exampletest.Log{}))
		time.Sleep(time.Second)
		w.Logged("INFO Successfully synced 'default/example-network'")
		w.Log.Clear()
		time.Sleep(time.Hour)

		network := w.network()
		before := network.DeepCopy()
		network.Status.ID = "another"
		w.Must(w.Client.Status().Patch(t.Context(), network, client.MergeFrom(before)))
		time.Sleep(time.Hour)
		if lines := w.Log.String(); lines != "" {
			t.Errorf("the controller has something to do:\n%s", lines)
		}
		w.Stop()
	})
}

// TestDrift checks that changes at the provider are reverted: at the next periodic comparison, and
// when the Network changes.
func TestDrift(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		w.Start(t)
		w.Apply("crd/samplecrd.k8s.io_networks.yaml")
		w.Apply("samples/example-network.yaml")
		networks := memory.New(&exampletest.Log{})
		w.run(settings{period: 10 * time.Minute}, networks)
		time.Sleep(time.Second)

		is := func(want string) {
			t.Helper()
			if n, err := networks.Get(t.Context(), key); err != nil || n.Spec.String() != want {
				t.Errorf("%s, %v, want %s", n.Spec, err, want)
			}
		}
		foreign, err := provider.ParseSpec("10.0.0.0/8", "10.0.0.1")
		w.Must(err)
		is("cidr 192.168.0.0/16, gateway 192.168.0.1")
		for range 2 {
			_, err := networks.Update(t.Context(), key, foreign)
			w.Must(err)
			time.Sleep(5 * time.Minute)
			is("cidr 10.0.0.0/8, gateway 10.0.0.1")
			time.Sleep(5 * time.Minute)
			is("cidr 192.168.0.0/16, gateway 192.168.0.1")
		}
		w.Must(networks.Delete(t.Context(), key))
		time.Sleep(10 * time.Minute)
		is("cidr 192.168.0.0/16, gateway 192.168.0.1")

		_, err = networks.Update(t.Context(), key, foreign)
		w.Must(err)
		w.Apply("samples/example-network-changed.yaml")
		time.Sleep(time.Second)
		is("cidr 192.168.0.0/16, gateway 192.168.1.1")
		w.Stop()
	})
}

// A Network that was deleted while no controller ran is gone at the provider as soon as one runs;
// and it waited for that.
func TestDeletedMeanwhile(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		w.Start(t)
		w.Apply("crd/samplecrd.k8s.io_networks.yaml")
		w.Apply("samples/example-network.yaml")
		networks := memory.New(&exampletest.Log{})
		w.run(settings{}, networks)
		time.Sleep(time.Second)
		w.StopController()

		w.Must(w.Client.Delete(t.Context(), w.network()))
		time.Sleep(time.Hour)
		if n := w.network(); n.DeletionTimestamp == nil {
			t.Error("the Network is not being deleted")
		}
		w.run(settings{}, networks)
		time.Sleep(time.Second)
		if _, err := networks.Get(t.Context(), key); err != provider.ErrNotFound {
			t.Errorf("the network at the provider: %v", err)
		}
		if err := w.Client.Get(t.Context(), key, &v1.Network{}); !apierrors.IsNotFound(err) {
			t.Errorf("the Network: %v", err)
		}
		w.Stop()
	})
}

// The same with a cloud: what it refuses stands in the status and in the log, and is tried again.
func TestNeutron(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		w.Start(t)
		w.Apply("crd/samplecrd.k8s.io_networks.yaml")
		cloud := neutrontest.New()
		cloud.PageSize = 1
		foreign := cloud.AddNetwork("kubernetes/default/example-network", "of another owner")
		networks, err := neutron.New(t.Context(), neutron.Options{Auth: neutrontest.Auth("http://cloud"), HTTPClient: cloud.Client()})
		w.Must(err)
		w.run(settings{period: 10 * time.Minute}, networks)

		w.Apply("samples/example-network.yaml")
		time.Sleep(time.Minute)
		if c := w.ready(); c.Status != metav1.ConditionFalse || c.Reason != v1.ReasonNameTaken {
			t.Errorf("with a network of the name: %+v", c)
		}
		w.Logged("error syncing 'default/example-network': kubernetes/default/example-network: a network of this name has another owner, requeuing")
		cloud.RemoveNetwork(foreign)
		cloud.Fail(func(method, path string) (int, string) {
			if method+" "+path == "POST /subnets" {
				return 409, "Quota exceeded for resources: ['subnet']."
			}
			return 0, ""
		})
		time.Sleep(30 * time.Minute)
		if c := w.ready(); c.Reason != v1.ReasonProvider || c.Message != "create subnet 192.168.0.0/16: Quota exceeded for resources: ['subnet']. (409)" {
			t.Errorf("without quota: %+v", c)
		}
		if n := cloud.Networks(); len(n) != 1 {
			t.Errorf("after many tries there are networks %+v, want one", n)
		}
		cloud.Fail(nil)
		cloud.ExpireTokens()
		time.Sleep(30 * time.Minute)
		w.cloudHas(cloud, "192.168.0.0/16 192.168.0.1")
		if c := w.ready(); c.Status != metav1.ConditionTrue {
			t.Errorf("at last: %+v", c)
		}

		w.Apply("samples/example-network-changed.yaml")
		time.Sleep(time.Second)
		w.cloudHas(cloud, "192.168.0.0/16 192.168.1.1")

		// By hand: the gateway, then all of it.
		id := cloud.Networks()[0].ID
		cloud.SetGateway(id, "192.168.9.9")
		time.Sleep(10 * time.Minute)
		w.cloudHas(cloud, "192.168.0.0/16 192.168.1.1")
		cloud.RemoveNetwork(id)
		time.Sleep(10 * time.Minute)
		w.cloudHas(cloud, "192.168.0.0/16 192.168.1.1")
		if now := cloud.Networks()[0].ID; w.network().Status.ID != now {
			t.Errorf("the status says %s, the network is %s", w.network().Status.ID, now)
		}

		// It does not go while a machine is in it.
		cloud.AddPort(cloud.Networks()[0].ID)
		w.Must(w.Client.Delete(t.Context(), w.network()))
		time.Sleep(time.Minute)
		if c := w.ready(); c.Reason != v1.ReasonProvider || !strings.Contains(c.Message, "ports still in use") {
			t.Errorf("a network in use: %+v", c)
		}
		cloud.RemovePorts()
		time.Sleep(30 * time.Minute)
		if err := w.Client.Get(t.Context(), key, &v1.Network{}); !apierrors.IsNotFound(err) {
			t.Errorf("the Network: %v", err)
		}
		w.cloudHas(cloud)
		w.Stop()
	})
}

// What makes no sense is refused by the server; what came past it is reported, and not tried again.
func TestInvalid(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		w.Start(t)
		w.Apply("crd/samplecrd.k8s.io_networks.yaml")
		networks := memory.New(&exampletest.Log{})
		w.run(settings{}, networks)
		for _, test := range []struct{ cidr, gateway, want string }{
			{"192.168.0.0", "192.168.0.1", "must be a range of addresses"},
			{"192.168.0.0/16", "gateway", "must be an address"},
			{"192.168.0.0/16", "10.0.0.1", "gateway must be an address of cidr"},
			{"192.168.0.0/16", "fd00::1", "gateway must be an address of cidr"},
			{"", "", "must be a range of addresses"},
		} {
			network := &v1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
				Spec: v1.NetworkSpec{Cidr: test.cidr, Gateway: test.gateway}}
			if err := w.Client.Create(t.Context(), network); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s %s: %v, want %s", test.cidr, test.gateway, err, test.want)
			}
		}

		// With a definition that is less strict.
		crd := w.Manifest("crd/samplecrd.k8s.io_networks.yaml")
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		spec := []string{"schema", "openAPIV3Schema", "properties", "spec"}
		version := versions[0].(map[string]any)
		unstructured.RemoveNestedField(version, append(spec, "x-kubernetes-validations")...)
		unstructured.RemoveNestedField(version, append(spec, "properties", "cidr", "x-kubernetes-validations")...)
		w.Must(unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"))
		w.ApplyObject(crd)
		w.Must(w.Client.Create(t.Context(), &v1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
			Spec: v1.NetworkSpec{Cidr: "192.168.0.0/33", Gateway: "192.168.0.1"}}))
		time.Sleep(time.Hour)
		if c := w.ready(); c.Reason != v1.ReasonInvalid || c.Message != `cidr "192.168.0.0/33": want a range of addresses, like 192.168.0.0/16` {
			t.Errorf("condition: %+v", c)
		}
		w.Logged("error syncing 'default/example-network': terminal error: cidr ")
		if w.Log.Count("Try to process") != 1 || w.Log.Count("requeuing")+w.Log.Count("Successfully synced") > 0 {
			t.Errorf("it is tried again, or counts as success:\n%s", w.Log)
		}
		w.Apply("samples/example-network.yaml")
		time.Sleep(time.Second)
		if c := w.ready(); c.Status != metav1.ConditionTrue {
			t.Errorf("after it was corrected: %+v", c)
		}
		w.Stop()
	})
}

// A Network for each new Deployment, which goes with it: informers of a built-in kind and of a
// custom one in one controller.
func TestDeployments(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		w.Start(t)
		w.Apply("crd/samplecrd.k8s.io_networks.yaml")
		w.Apply("samples/example-network.yaml") // which takes 192.168.0.0/16
		networks := memory.New(&exampletest.Log{})
		w.run(settings{pool: "192.0.0.0/8"}, networks)
		time.Sleep(time.Second)

		const n = 20
		for i := range n {
			w.Must(w.Client.Create(t.Context(), deployment(fmt.Sprintf("web-%d", i))))
		}
		w.Must(w.Client.Create(t.Context(), deployment(key.Name))) // its Network exists, and belongs to another owner
		time.Sleep(time.Second)
		list := &v1.NetworkList{}
		w.Must(w.Client.List(t.Context(), list))
		if len(list.Items) != n+1 {
			t.Fatalf("%d Networks, want %d", len(list.Items), n+1)
		}
		for i, a := range list.Items {
			for _, b := range list.Items[i+1:] {
				if netip.MustParsePrefix(a.Spec.Cidr).Overlaps(netip.MustParsePrefix(b.Spec.Cidr)) {
					t.Errorf("%s and %s share addresses", a.Name, b.Name)
				}
			}
			if !meta.IsStatusConditionTrue(a.Status.Conditions, v1.Ready) {
				t.Errorf("%s is not ready: %+v", a.Name, a.Status)
			}
		}

		// Without its Deployment a Network goes; without its Network a Deployment gets another.
		w.Must(w.Client.Delete(t.Context(), deployment("web-0")))
		w.Must(w.Client.Delete(t.Context(), &v1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-1"}}))
		w.Must(w.Client.Delete(t.Context(), deployment(key.Name)))
		time.Sleep(time.Minute)
		for name, want := range map[string]bool{"web-0": false, "web-1": true, key.Name: true} {
			_, err := networks.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: name})
			if got := err == nil; got != want {
				t.Errorf("network %s at the provider: %v", name, err)
			}
		}
		w.Stop()
	})
}

func deployment(name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "nginx", Image: "nginx"}}},
			},
		},
	}
}

// Without -master and -kubeconfig it is as in any client: the environment, then the service account
// of the pod.
func TestConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	const kubeconfig = `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: "http://file:1"}}]}`
	if err := os.WriteFile(file, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for _, test := range []struct{ master, kubeconfig, environment, want string }{
		{"http://flag:1", "", "", "http://flag:1"},
		{"", file, "", "http://file:1"},
		{"http://flag:1", file, "", "http://flag:1"},
		{"", "", file, "http://file:1"},
		{"", file + "x", file, "API server configuration"},
	} {
		t.Setenv("KUBECONFIG", test.environment)
		cfg, err := config(test.master, test.kubeconfig)
		got := fmt.Sprint(err)
		if err == nil {
			got = cfg.Host
		}
		if !strings.HasPrefix(got, test.want) {
			t.Errorf("%+v: %s", test, got)
		}
	}
}

// A world is one with a controller of Networks.
type world struct{ *exampletest.World }

func newWorld(t *testing.T) world { return world{exampletest.New(t, "manifests", v1.AddToScheme)} }

// run runs the controllers of s.
func (w world) run(s settings, networks provider.Provider) {
	w.Run(func(ctx context.Context, cfg *rest.Config, logger logr.Logger) error {
		s.manager.Logger = logger
		return s.run(ctx, cfg, networks)
	})
}

func (w world) network() *v1.Network {
	w.Helper()
	network := &v1.Network{}
	w.Must(w.Client.Get(w.Context(), key, network))
	return network
}

// ready is the condition of the Network.
func (w world) ready() metav1.Condition {
	w.Helper()
	c := meta.FindStatusCondition(w.network().Status.Conditions, v1.Ready)
	if c == nil {
		w.Fatalf("the Network has no condition Ready; log:\n%s", w.Log)
	}
	return *c
}

// cloudHas asserts which subnets there are, each as CIDR and gateway.
func (w world) cloudHas(cloud *neutrontest.Cloud, want ...string) {
	w.Helper()
	var got []string
	for _, s := range cloud.Subnets() {
		got = append(got, s.CIDR+" "+*s.GatewayIP)
	}
	if !slices.Equal(got, want) || len(cloud.Networks()) != len(want) {
		w.Errorf("the cloud has %d networks with %q, want %q; log:\n%s", len(cloud.Networks()), got, want, w.Log)
	}
}
