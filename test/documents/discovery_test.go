package documents

import (
	"crypto/tls"
	"net/http"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/restmapper"
)

// eight are the verbs of a resource, sorted.
var eight = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}

func discovery() []row {
	return []row{
		{
			id: "D1", says: "GET /apis and /apis/: APIGroupList: name, versions[], preferredVersion",
			but: "clients ask for the aggregated list first, with Accept: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
			show: func(s *server) {
				s.define(manifest(s, "at-crd.yaml"))
				for _, path := range []string{"/apis", "/apis/"} {
					s.get(path).has("kind", "APIGroupList", "apiVersion", "v1").item("groups", "name", atGroup).has(
						"versions", "[{groupVersion: "+atGroup+"/v1alpha1, version: v1alpha1}]",
						"preferredVersion", "{groupVersion: "+atGroup+"/v1alpha1, version: v1alpha1}")
				}
				aggregated := s.get("/apis", "Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json")
				aggregated.has("kind", "APIGroupDiscoveryList", "apiVersion", "apidiscovery.k8s.io/v2").says(`"resource":"ats"`)
			},
		},
		{
			id: "D2", says: "GET /apis/G/V: APIResourceList: kind, name, namespaced, 8 verbs",
			show: func(s *server) {
				s.define(manifest(s, "at-crd.yaml"))
				list := s.get(atRoot).has("kind", "APIResourceList", "groupVersion", atGroup+"/v1alpha1")
				r := list.item("resources", "name", "ats").has("kind", "At", "namespaced", "true", "singularName", "at")
				if got := verbsOf(r); !slices.Equal(got, eight) {
					s.Errorf("verbs %v", got)
				}
			},
		},
		{
			id: "D3", says: "GET /api: APIVersions: versions, serverAddressByClientCIDRs",
			show: func(s *server) {
				s.get("/api").has("kind", "APIVersions", "versions", "[v1]",
					"serverAddressByClientCIDRs", "[{clientCIDR: 0.0.0.0/0, serverAddress: ''}]")
			},
		},
		{
			id: "D4", says: "APIResource: name singularName namespaced group version kind verbs shortNames categories storageVersionHash; group and version set where they differ (Scale)",
			show: func(s *server) {
				s.define(manifest(s, "at-crd-short-names.yaml"))
				s.get(atRoot).item("resources", "name", "ats").has("shortNames", "[at]")
				s.define(manifest(s, "at-crd-scale.yaml"))
				s.until(atRoot, func(a *answer) bool { return strings.Contains(a.text, "ats/scale") }).item("resources", "name", "ats/scale").has(
					"group", "autoscaling", "version", "v1", "kind", "Scale", "namespaced", "true", "singularName", "''", "verbs", "[get, patch, update]")
				s.get(atRoot).item("resources", "name", "ats").has("group", "absent", "version", "absent")
				s.define(manifest(s, "at-crd-categories.yaml"))
				r := s.until(atRoot, func(a *answer) bool { return strings.Contains(a.text, "categories") }).item("resources", "name", "ats")
				if r.has("categories", "[all]"); r.string("storageVersionHash") == "" {
					s.Error("no storageVersionHash")
				}
			},
		},
		{
			id: "D5", says: "Verbs.String() is `[get list]`",
			show: func(s *server) {
				list, err := s.discovery().ServerResourcesForGroupVersion("v1")
				if err != nil {
					s.Fatal(err)
				}
				for _, r := range list.APIResources {
					if got, want := r.Verbs.String(), "["+strings.Join(r.Verbs, " ")+"]"; got != want {
						s.Errorf("%s: %s, want %s", r.Name, got, want)
					}
				}
				if got := (metav1.Verbs{"get", "list"}).String(); got != "[get list]" {
					s.Error(got)
				}
			},
		},
		{
			id: "D6", says: "the client's address: X-Forwarded-For, X-Real-Ip, remote address, in this order",
			but: "it chooses among server addresses by the networks of clients, and there is one address for all",
			show: func(s *server) {
				r := &http.Request{Header: http.Header{}, RemoteAddr: "192.0.2.3:4"}
				for _, step := range []struct{ header, address string }{{"", "192.0.2.3"}, {"X-Real-Ip", "192.0.2.2"}, {"X-Forwarded-For", "192.0.2.1"}} {
					if step.header != "" {
						r.Header.Set(step.header, step.address)
					}
					if got := utilnet.GetClientIP(r).String(); got != step.address {
						s.Errorf("with %v: %s, want %s", r.Header, got, step.address)
					}
				}
				plain := s.get("/api").text
				if other := s.get("/api", "X-Forwarded-For", "192.0.2.1", "X-Real-Ip", "192.0.2.2").text; other != plain {
					s.Errorf("another answer: %s, want %s", other, plain)
				}
			},
		},
		{
			id: "D7", says: "clients map ats to (group, version, resource) by discovery alone (RESTMapper)",
			show: func(s *server) {
				s.define(manifest(s, "at-crd.yaml"))
				got, err := s.mapper().ResourceFor(schema.GroupVersionResource{Resource: "ats"})
				if want := (schema.GroupVersionResource{Group: atGroup, Version: "v1alpha1", Resource: "ats"}); err != nil || got != want {
					s.Errorf("%v, %v, want %v", got, err, want)
				}
			},
		},
		{
			id: "D8", says: "kubectl get asks for a Table", but: "it asks for v1 of Table, then v1beta1, then JSON", script: "at.txt",
			show: func(s *server) {
				s.define(manifest(s, "at-crd.yaml"))
				s.must(201, "POST", ats, manifest(s, "at.yaml"))
				for accept, version := range map[string]string{
					"application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json":                                                   "v1beta1",
					"application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json":      "v1",
					"application/json;as=Table;v=v9;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io;q=0.9,application/xml": "v1beta1",
				} {
					table := s.get(ats+"?limit=500", "Accept", accept)
					table.has("kind", "Table", "apiVersion", "meta.k8s.io/"+version,
						"columnDefinitions.0.name", "Name", "columnDefinitions.1.name", "Age", "columnDefinitions.2", "absent",
						"rows.0.cells.0", "example-at")
				}
				s.get(ats, "Accept", "application/json;as=Table;v=v9;g=meta.k8s.io,application/json").has("kind", "AtList")
			},
		},
		{
			id: "D9", says: "kubectl caches discovery", but: "for 6 hours, in ~/.kube/cache, and asks again for a kind it does not know", script: "columns.txt",
			show: func(s *server) {
				const accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
				tag := s.get("/apis", "Accept", accept).header.Get("Etag")
				s.must(304, "GET", "/apis", "", "Accept", accept, "If-None-Match", tag)
				s.define(manifest(s, "at-crd.yaml"))
				if now := s.get("/apis", "Accept", accept, "If-None-Match", tag).header.Get("Etag"); now == tag || now == "" {
					s.Errorf("tag %q for another document", now)
				}
			},
		},
		{
			id: "D10", says: "short names, group, scope, kind of all resources", but: "kubectl api-resources prints APIVERSION in place of APIGROUP", script: "columns.txt",
			show: func(s *server) {
				s.define(manifest(s, "at-crd-short-names.yaml"))
				lists, err := s.discovery().ServerPreferredResources()
				if err != nil {
					s.Fatal(err)
				}
				found := map[string]metav1.APIResource{}
				for _, list := range lists {
					for _, r := range list.APIResources {
						found[list.GroupVersion+" "+r.Name] = r
					}
				}
				for name, want := range map[string]metav1.APIResource{
					atGroup + "/v1alpha1 ats": {ShortNames: []string{"at"}, Namespaced: true, Kind: "At"},
					"v1 configmaps":           {ShortNames: []string{"cm"}, Namespaced: true, Kind: "ConfigMap"},
					"v1 namespaces":           {ShortNames: []string{"ns"}, Kind: "Namespace"},
					"apps/v1 deployments":     {ShortNames: []string{"deploy"}, Namespaced: true, Kind: "Deployment"},
				} {
					got := found[name]
					if got.Kind != want.Kind || got.Namespaced != want.Namespaced || !slices.Equal(got.ShortNames, want.ShortNames) {
						s.Errorf("%s: %+v, want %+v", name, got, want)
					}
				}
			},
		},
	}
}

func verbsOf(r *answer) []string {
	var verbs []string
	list, _ := r.find("verbs").([]any)
	for _, v := range list {
		verbs = append(verbs, v.(string))
	}
	slices.Sort(verbs)
	return verbs
}

func (s *server) discovery() *clientdiscovery.DiscoveryClient {
	s.Helper()
	c, err := clientdiscovery.NewDiscoveryClientForConfig(s.Config())
	if err != nil {
		s.Fatal(err)
	}
	return c
}

// mapper returns the mapper with which clients find kinds by name.
func (s *server) mapper() meta.RESTMapper {
	s.Helper()
	groups, err := restmapper.GetAPIGroupResources(s.discovery())
	if err != nil {
		s.Fatal(err)
	}
	return restmapper.NewDiscoveryRESTMapper(groups)
}

// plainHTTP asks at the socket without TLS.
func plainHTTP(s *server) (tlsCode, plainCode int) {
	s.Helper()
	outside := startWith(s.TB, kapok.Options{Listen: "127.0.0.1:0"})
	ask := func(scheme string) int {
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
		defer transport.CloseIdleConnections()
		resp, err := (&http.Client{Transport: transport}).Get(scheme + "://" + outside.Address() + "/version")
		if err != nil {
			s.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	return ask("https"), ask("http")
}
