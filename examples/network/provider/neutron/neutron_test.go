package neutron_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/examples/network/provider"
	"github.com/kapok-dev/kapok/examples/network/provider/neutron"
	"github.com/kapok-dev/kapok/examples/network/provider/neutron/neutrontest"

	"github.com/gophercloud/gophercloud/v2"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var key = types.NamespacedName{Namespace: "default", Name: "example-network"}

const name = "kubernetes/default/example-network"

func spec(cidr, gateway string) provider.Spec {
	return provider.Spec{CIDR: netip.MustParsePrefix(cidr), Gateway: netip.MustParseAddr(gateway)}
}

// start serves a cloud over HTTP, and returns a provider of it.
func start(t *testing.T) (*neutrontest.Cloud, *neutron.Provider) {
	t.Helper()
	cloud := neutrontest.New()
	server := httptest.NewServer(cloud)
	t.Cleanup(server.Close)
	p, err := neutron.New(t.Context(), neutron.Options{Auth: neutrontest.Auth(server.URL), HTTPClient: server.Client()})
	if err != nil {
		t.Fatal(err)
	}
	return cloud, p
}

// get asserts what the provider says there is: a Spec as text, or an error.
func get(t *testing.T, p provider.Provider, want string) {
	t.Helper()
	network, err := p.Get(t.Context(), key)
	got := network.Spec.String()
	if err != nil {
		got = err.Error()
	}
	if got != want {
		t.Errorf("Get:\n got %s\nwant %s", got, want)
	}
}

func must(t *testing.T) func(provider.Network, error) provider.Network {
	return func(n provider.Network, err error) provider.Network {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
}

// The life of a network: create if absent, update if different, delete.
func TestLife(t *testing.T) {
	cloud, p := start(t)
	get(t, p, provider.ErrNotFound.Error())

	first := must(t)(p.Create(t.Context(), key, spec("192.168.0.0/16", "192.168.0.1")))
	get(t, p, "cidr 192.168.0.0/16, gateway 192.168.0.1")
	if n := cloud.Networks(); len(n) != 1 || n[0].Name != name || n[0].ID != first.ID {
		t.Fatalf("networks: %+v", n)
	}
	subnet := cloud.Subnets()[0].ID

	// Another gateway, although it is one of the addresses for machines: the subnet stays.
	must(t)(p.Update(t.Context(), key, spec("192.168.0.0/16", "192.168.1.1")))
	get(t, p, "cidr 192.168.0.0/16, gateway 192.168.1.1")
	if s := cloud.Subnets(); len(s) != 1 || s[0].ID != subnet {
		t.Errorf("subnets: %+v, want still %s", s, subnet)
	}
	if got, want := cloud.Subnets()[0].AllocationPools, []neutrontest.Pool{
		{Start: "192.168.0.1", End: "192.168.1.0"}, {Start: "192.168.1.2", End: "192.168.255.254"}}; !slices.Equal(got, want) {
		t.Errorf("pools %v, want %v", got, want)
	}

	// Another range, which overlaps: another subnet, the same network.
	second := must(t)(p.Update(t.Context(), key, spec("192.168.1.0/24", "192.168.1.1")))
	get(t, p, "cidr 192.168.1.0/24, gateway 192.168.1.1")
	if s := cloud.Subnets(); len(s) != 1 || s[0].ID == subnet || second.ID != first.ID {
		t.Errorf("subnets: %+v, network %s, want another subnet than %s in network %s", s, second.ID, subnet, first.ID)
	}

	// The other family.
	must(t)(p.Update(t.Context(), key, spec("fd00::/64", "fd00::1")))
	get(t, p, "cidr fd00::/64, gateway fd00::1")

	for range 2 { // the second time there is nothing to delete
		if err := p.Delete(t.Context(), key); err != nil {
			t.Error(err)
		}
	}
	get(t, p, provider.ErrNotFound.Error())
	if n, s := cloud.Networks(), cloud.Subnets(); len(n)+len(s) != 0 {
		t.Errorf("left over: %+v %+v", n, s)
	}
	if _, err := p.Update(t.Context(), key, spec("fd00::/64", "fd00::1")); !errors.Is(err, provider.ErrNotFound) {
		t.Errorf("update of a network that is not there: %v", err)
	}
}

// What is as it should be is only looked at.
func TestGetChangesNothing(t *testing.T) {
	cloud, p := start(t)
	must(t)(p.Create(t.Context(), key, spec("10.0.0.0/8", "10.0.0.1")))
	cloud.Log()
	get(t, p, "cidr 10.0.0.0/8, gateway 10.0.0.1")
	if got, want := cloud.Log(), []string{"GET /networks", "GET /subnets"}; !slices.Equal(got, want) {
		t.Errorf("requests %v, want %v", got, want)
	}
}

// Whichever request fails, and whether before or after it had its effect: what the controller does
// next leads to the same end.
func TestPartialCreation(t *testing.T) {
	wanted := spec("10.0.0.0/8", "10.0.0.1")
	for _, request := range []string{"POST /networks", "GET /subnets", "POST /subnets"} {
		for _, late := range []bool{false, true} {
			cloud, p := start(t)
			reason := "no database (503)"
			if late {
				reason = "Gateway Timeout (504)"
				cloud.Lose(func(method, path string) bool { return method+" "+path == request })
			} else {
				cloud.Fail(func(method, path string) (int, string) {
					if method+" "+path == request {
						return 503, "no database"
					}
					return 0, ""
				})
			}
			_, err := p.Create(t.Context(), key, wanted)
			if err == nil || !strings.HasSuffix(err.Error(), ": "+reason) {
				t.Errorf("%s fails, %t: error %v", request, late, err)
			}
			cloud.Fail(nil)
			cloud.Lose(nil)

			// What the controller does.
			actual, err := p.Get(t.Context(), key)
			change, err := provider.Diff(wanted, actual, err)
			switch {
			case err != nil:
				t.Fatal(err)
			case change == provider.Create:
				must(t)(p.Create(t.Context(), key, wanted))
			case change == provider.Update:
				must(t)(p.Update(t.Context(), key, wanted))
			}
			get(t, p, "cidr 10.0.0.0/8, gateway 10.0.0.1")
			if n, s := cloud.Networks(), cloud.Subnets(); len(n) != 1 || len(s) != 1 {
				t.Errorf("%s fails, %t: then there are %+v %+v", request, late, n, s)
			}
		}
	}
}

// Networks of others with the same name are neither taken over nor deleted.
func TestNameCollision(t *testing.T) {
	cloud, p := start(t)
	foreign := cloud.AddNetwork(name, "of another owner")
	get(t, p, name+": "+provider.ErrTaken.Error())
	if err := p.Delete(t.Context(), key); err != nil {
		t.Error(err)
	}
	if n := cloud.Networks(); len(n) != 1 || n[0].ID != foreign {
		t.Errorf("networks: %+v, want the foreign one", n)
	}

	// The network of this provider is found, not the foreign one.
	must(t)(p.Create(t.Context(), key, spec("10.0.0.0/8", "10.0.0.1")))
	get(t, p, "cidr 10.0.0.0/8, gateway 10.0.0.1")
	if err := p.Delete(t.Context(), key); err != nil {
		t.Error(err)
	}
	if n := cloud.Networks(); len(n) != 1 || n[0].ID != foreign {
		t.Errorf("networks: %+v, want the foreign one", n)
	}
}

// Two clusters in one project do not meet.
func TestClusters(t *testing.T) {
	cloud := neutrontest.New()
	var providers []*neutron.Provider
	for _, cluster := range []string{"a", "b"} {
		p, err := neutron.New(t.Context(), neutron.Options{Auth: neutrontest.Auth("http://cloud"), HTTPClient: cloud.Client(), Cluster: cluster})
		if err != nil {
			t.Fatal(err)
		}
		must(t)(p.Create(t.Context(), key, spec("10.0.0.0/8", "10.0.0.1")))
		providers = append(providers, p)
		cloud.ExpireTokens() // the provider must get a new token
	}
	if err := providers[0].Delete(t.Context(), key); err != nil {
		t.Error(err)
	}
	get(t, providers[0], provider.ErrNotFound.Error())
	get(t, providers[1], "cidr 10.0.0.0/8, gateway 10.0.0.1")
}

// Two controllers have made the network at once: Update leaves one of both, Delete none.
func TestTwins(t *testing.T) {
	for _, end := range []string{"update", "delete"} {
		cloud, p := start(t)
		for range 2 {
			must(t)(p.Create(t.Context(), key, spec("10.0.0.0/8", "10.0.0.1")))
		}
		get(t, p, "incomplete")
		if end == "update" {
			must(t)(p.Update(t.Context(), key, spec("10.0.0.0/8", "10.0.0.1")))
			get(t, p, "cidr 10.0.0.0/8, gateway 10.0.0.1")
			if n := cloud.Networks(); len(n) != 1 {
				t.Errorf("networks: %+v, want one", n)
			}
			continue
		}
		if err := p.Delete(t.Context(), key); err != nil {
			t.Error(err)
		}
		get(t, p, provider.ErrNotFound.Error())
	}
}

// Ours is found on a late page, when names are not unique and pages are small.
func TestPagination(t *testing.T) {
	cloud, p := start(t)
	cloud.PageSize = 2
	for range 4 {
		cloud.AddNetwork(name, "of another owner")
	}
	must(t)(p.Create(t.Context(), key, spec("10.0.0.0/8", "10.0.0.1")))
	for range 3 {
		cloud.AddNetwork(name, "of another owner")
	}
	cloud.Log()
	get(t, p, "cidr 10.0.0.0/8, gateway 10.0.0.1")
	if got, want := strings.Join(cloud.Log(), ", "), strings.Repeat("GET /networks, ", 4)+"GET /subnets"; got != want {
		t.Errorf("requests %s, want %s", got, want)
	}
}

// Deleting a network with machines returns the error of Neutron, and so does changing its subnet.
// Without the machines both succeed.
func TestInUse(t *testing.T) {
	cloud, p := start(t)
	network := must(t)(p.Create(t.Context(), key, spec("10.0.0.0/8", "10.0.0.1")))
	cloud.AddPort(network.ID)
	if err := p.Delete(t.Context(), key); err == nil || !strings.Contains(err.Error(), "ports still in use on the network. (409)") {
		t.Errorf("delete: %v", err)
	}
	if _, err := p.Update(t.Context(), key, spec("172.16.0.0/12", "172.16.0.1")); err == nil || !strings.Contains(err.Error(), "from this subnet. (409)") {
		t.Errorf("update: %v", err)
	}
	get(t, p, "cidr 10.0.0.0/8, gateway 10.0.0.1")
	cloud.RemovePorts()
	must(t)(p.Update(t.Context(), key, spec("172.16.0.0/12", "172.16.0.1")))
	get(t, p, "cidr 172.16.0.0/12, gateway 172.16.0.1")
}

// A concurrent deletion by another client is not an error.
func TestGoneMeanwhile(t *testing.T) {
	cloud, p := start(t)
	must(t)(p.Create(t.Context(), key, spec("10.0.0.0/8", "10.0.0.1")))
	cloud.Fail(func(method, _ string) (int, string) {
		if method == "DELETE" {
			return 404, "could not be found"
		}
		return 0, ""
	})
	if err := p.Delete(t.Context(), key); err != nil {
		t.Error(err)
	}
}

// Each request that fails is an error in the cloud's own words, and can be recognised.
func TestErrors(t *testing.T) {
	ctx := t.Context()
	wanted := spec("10.0.0.0/8", "10.0.0.2")
	for _, test := range []struct {
		fails string // METHOD and beginning of the path
		call  func(p *neutron.Provider) error
	}{
		{"GET /networks", func(p *neutron.Provider) error { _, err := p.Get(ctx, key); return err }},
		{"GET /subnets", func(p *neutron.Provider) error { _, err := p.Get(ctx, key); return err }},
		{"GET /networks", func(p *neutron.Provider) error { _, err := p.Update(ctx, key, wanted); return err }},
		{"GET /subnets", func(p *neutron.Provider) error { _, err := p.Update(ctx, key, wanted); return err }},
		{"PUT /subnets", func(p *neutron.Provider) error { _, err := p.Update(ctx, key, wanted); return err }},
		{"GET /networks", func(p *neutron.Provider) error { return p.Delete(ctx, key) }},
		{"DELETE /networks", func(p *neutron.Provider) error { return p.Delete(ctx, key) }},
	} {
		cloud, p := start(t)
		must(t)(p.Create(ctx, key, spec("10.0.0.0/8", "10.0.0.1")))
		cloud.Fail(func(method, path string) (int, string) {
			if strings.HasPrefix(method+" "+path, test.fails) {
				return 500, "out of order"
			}
			return 0, ""
		})
		err := test.call(p)
		if err == nil || !strings.HasSuffix(err.Error(), ": out of order (500)") || !gophercloud.ResponseCodeIs(err, 500) {
			t.Errorf("%s fails: %v", test.fails, err)
		}
	}
}

// TestDrift removes the gateway by hand.
func TestDrift(t *testing.T) {
	cloud, p := start(t)
	network := must(t)(p.Create(t.Context(), key, spec("10.0.0.0/8", "10.0.0.1")))
	cloud.SetGateway(network.ID, "")
	get(t, p, "cidr 10.0.0.0/8, no gateway")
	must(t)(p.Update(t.Context(), key, spec("10.0.0.0/8", "10.0.0.1")))
	get(t, p, "cidr 10.0.0.0/8, gateway 10.0.0.1")
}

func TestLongNames(t *testing.T) {
	cloud, p := start(t)
	for _, end := range []string{"a", "b"} {
		long := types.NamespacedName{Namespace: strings.Repeat("n", 63), Name: strings.Repeat("x", 252) + end}
		must(t)(p.Create(t.Context(), long, spec("10.0.0.0/8", "10.0.0.1")))
		if n, err := p.Get(t.Context(), long); err != nil || n.Spec == (provider.Spec{}) {
			t.Errorf("%+v, %v", n, err)
		}
	}
	for _, n := range cloud.Networks() {
		if len(n.Name) != 255 {
			t.Errorf("name of %d characters: %s", len(n.Name), n.Name)
		}
	}
}

func TestNew(t *testing.T) {
	cloud := neutrontest.New()
	server := httptest.NewServer(cloud)
	defer server.Close()
	for _, test := range []struct {
		name   string
		change func(*neutron.Options)
		want   string
	}{
		{"wrong password", func(o *neutron.Options) { o.Auth.Password = "x" }, "requires authentication. (401)"},
		{"wrong region", func(o *neutron.Options) { o.Region = "elsewhere" }, "find Neutron in the catalog of Keystone"},
		{"no Keystone there", func(o *neutron.Options) { o.Auth.IdentityEndpoint = server.URL + "/v3" }, "Not Found (404)"},
		{"no address", func(o *neutron.Options) { o.Auth.IdentityEndpoint = "%" }, "address of Keystone"},
	} {
		opts := neutron.Options{Auth: neutrontest.Auth(server.URL), HTTPClient: server.Client()}
		test.change(&opts)
		if _, err := neutron.New(t.Context(), opts); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.name, err, test.want)
		}
	}
}

func TestFromEnvironment(t *testing.T) {
	for _, variable := range []string{"OS_AUTH_URL", "OS_USERNAME", "OS_PASSWORD", "OS_PROJECT_NAME", "OS_USER_DOMAIN_NAME", "OS_DOMAIN_ID", "OS_REGION_NAME"} {
		t.Setenv(variable, "")
	}
	if _, err := neutron.FromEnvironment(); err == nil || !strings.Contains(err.Error(), "OS_AUTH_URL") {
		t.Errorf("without variables: %v", err)
	}
	cloud := neutrontest.New()
	for variable, value := range neutrontest.Environment("http://cloud") {
		t.Setenv(variable, value)
	}
	opts, err := neutron.FromEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	opts.HTTPClient = cloud.Client()
	p, err := neutron.New(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	get(t, p, provider.ErrNotFound.Error())
}

// The cloud of the tests refuses what Neutron refuses; else they would prove little.
func TestCloud(t *testing.T) {
	cloud := neutrontest.New()
	server := httptest.NewServer(cloud)
	defer server.Close()
	response, err := server.Client().Get(server.URL + "/networking/v2.0/networks")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a token: %s", response.Status)
	}
}
