package endpoint

import (
	"net/http"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/resource"

	"github.com/google/go-cmp/cmp"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestDiscovery(t *testing.T) {
	s := newServer(t)
	tests := map[string]string{
		"/api":  `{"kind":"APIVersions","versions":["v1"],"serverAddressByClientCIDRs":[{"clientCIDR":"0.0.0.0/0","serverAddress":"127.0.0.1:6443"}]}`,
		"/apis": `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"example.com","versions":[{"groupVersion":"example.com/v1","version":"v1"},{"groupVersion":"example.com/v1beta1","version":"v1beta1"}],"preferredVersion":{"groupVersion":"example.com/v1","version":"v1"}}]}`,
		"/api/v1": `{"kind":"APIResourceList","groupVersion":"v1","resources":[` +
			`{"name":"configmaps","singularName":"configmap","namespaced":true,"kind":"ConfigMap","verbs":["create","delete","deletecollection","get","list","patch","update","watch"],"shortNames":["cm"],"storageVersionHash":"qFsyl6wFWjQ="},` +
			`{"name":"namespaces","singularName":"namespace","namespaced":false,"kind":"Namespace","verbs":["create","delete","get","list","patch","update","watch"],"storageVersionHash":"Q3oi5N2YM8M="},` +
			`{"name":"namespaces/finalize","singularName":"","namespaced":false,"kind":"Namespace","verbs":["update"]},` +
			`{"name":"namespaces/status","singularName":"","namespaced":false,"kind":"Namespace","verbs":["get","patch","update"]}]}`,
		"/apis/example.com": `{"kind":"APIGroup","apiVersion":"v1","name":"example.com","versions":[{"groupVersion":"example.com/v1","version":"v1"},{"groupVersion":"example.com/v1beta1","version":"v1beta1"}],"preferredVersion":{"groupVersion":"example.com/v1","version":"v1"}}`,
	}
	for path, want := range tests {
		for _, path := range []string{path, path + "/"} {
			if got := s.must(200, "GET", path, ""); got != want+"\n" {
				t.Errorf("%s:\n got %s\nwant %s", path, got, want)
			}
		}
	}
	list := decode[metav1.APIResourceList](t, s.must(200, "GET", "/apis/example.com/v1", ""))
	var names []string
	for _, r := range list.APIResources {
		names = append(names, r.Name)
	}
	if diff := cmp.Diff([]string{"widgets", "widgets/status", "widgets/scale"}, names); diff != "" || list.APIResources[2].Group != "autoscaling" {
		t.Errorf("resources of a custom group:\n%s", diff)
	}
	if list := decode[metav1.APIResourceList](t, s.must(200, "GET", "/apis/example.com/v1beta1", "")); len(list.APIResources) != 1 {
		t.Errorf("resources of v1beta1: %+v", list)
	}
	inProtobuf := decodeProtobuf[metav1.APIGroupList](t, s.must(200, "GET", "/apis", "", "Accept", contentTypeProtobuf), "v1 APIGroupList")
	if len(inProtobuf.Groups) != 1 {
		t.Errorf("in protobuf: %+v", inProtobuf)
	}
	s.must(405, "POST", "/api/v1", "{}")

	// Changes show at once.
	s.store.Registry().Remove(schema.GroupResource{Group: "example.com", Resource: "widgets"})
	if got := s.must(200, "GET", "/apis", ""); got != `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`+"\n" {
		t.Errorf("without groups: %s", got)
	}
	s.must(404, "GET", "/apis/example.com", "")
}

func TestAggregatedDiscovery(t *testing.T) {
	for _, version := range []string{"v2", "v2beta1"} {
		s := newServer(t)
		accept := "application/json;g=apidiscovery.k8s.io;v=" + version + ";as=APIGroupDiscoveryList,application/json"
		w := s.do("GET", "/apis", "", "Accept", accept)
		if got, want := w.Header().Get("Content-Type"), "application/json;g=apidiscovery.k8s.io;v="+version+";as=APIGroupDiscoveryList"; got != want {
			t.Errorf("content type %s, want %s", got, want)
		}
		etag := w.Header().Get("ETag")
		if len(etag) != 130 || w.Header().Get("Vary") != "Accept" || w.Header().Get("Cache-Control") != "public" {
			t.Errorf("headers %v", w.Header())
		}
		list := decode[apidiscoveryv2.APIGroupDiscoveryList](t, w.Body.String())
		if list.Kind != "APIGroupDiscoveryList" || list.APIVersion != "apidiscovery.k8s.io/"+version || len(list.Items) != 1 {
			t.Fatalf("%s", w.Body)
		}
		kind := func(group, version, kind string) *metav1.GroupVersionKind {
			return &metav1.GroupVersionKind{Group: group, Version: version, Kind: kind}
		}
		want := apidiscoveryv2.APIResourceDiscovery{
			Resource: "widgets", ResponseKind: kind("example.com", "v1", "Widget"), Scope: "Namespaced", SingularResource: "widget",
			Verbs: []string{"delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"}, ShortNames: []string{"wd"}, Categories: []string{"all"},
			Subresources: []apidiscoveryv2.APISubresourceDiscovery{
				{Subresource: "status", ResponseKind: kind("example.com", "v1", "Widget"), Verbs: []string{"get", "patch", "update"}},
				{Subresource: "scale", ResponseKind: kind("autoscaling", "v1", "Scale"), Verbs: []string{"get", "patch", "update"}},
			},
		}
		if diff := cmp.Diff(want, list.Items[0].Versions[0].Resources[0]); diff != "" {
			t.Error(diff)
		}

		if w := s.do("GET", "/apis", "", "Accept", accept, "If-None-Match", etag); w.Code != http.StatusNotModified || w.Body.Len() > 0 {
			t.Errorf("If-None-Match: %d %s", w.Code, w.Body)
		}
		core := decode[apidiscoveryv2.APIGroupDiscoveryList](t, s.must(200, "GET", "/api", "", "Accept", accept))
		if len(core.Items) != 1 || core.Items[0].Name != "" || *core.Items[0].Versions[0].Resources[0].ResponseKind != (metav1.GroupVersionKind{Kind: "ConfigMap"}) {
			t.Errorf("core: %+v", core)
		}

		other := widgets()
		other.Plural, other.Kind = "others", "Other"
		s.store.Registry().Put(other)
		if s.do("GET", "/apis", "", "Accept", accept).Header().Get("ETag") == etag {
			t.Error("a new kind has left the ETag as it was")
		}
	}
	s := newServer(t)
	if got := s.must(200, "GET", "/apis", "", "Accept", "application/json;g=apidiscovery.k8s.io;v=v3;as=APIGroupDiscoveryList,application/json"); !strings.Contains(got, "APIGroupList") {
		t.Errorf("another version: %s", got)
	}
}

// TestGroupByGroup sends the requests of current clients, which list the groups if there is no
// aggregated document.
func TestGroupByGroup(t *testing.T) {
	s := newServer(t, func(opts *Options) { opts.GroupByGroup = true })
	for path, kind := range map[string]string{"/api": "APIVersions", "/apis": "APIGroupList"} {
		w := s.do("GET", path, "", "Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json")
		if got := w.Header().Get("Content-Type"); w.Code != http.StatusOK || got != "application/json" || !strings.Contains(w.Body.String(), `"kind":"`+kind+`"`) {
			t.Errorf("%s: %d %s: %s", path, w.Code, got, w.Body)
		}
	}
}

func TestGroupOrder(t *testing.T) {
	var all []*resource.Definition
	for _, g := range []struct {
		group, version string
		custom         bool
	}{
		{"zoo.com", "v1", true}, {"ant.com", "v1beta1", true}, {"ant.com", "v1", true}, {"ant.com", "v10", true},
		{"coordination.k8s.io", "v1", false}, {"batch", "v1", false}, {"apps", "v1", false}, {"", "v1", false}, {"apiextensions.k8s.io", "v1", false},
	} {
		v := &resource.Version{Name: g.version}
		all = append(all, &resource.Definition{Group: g.group, Plural: g.version + "s", Custom: g.custom, Versions: []*resource.Version{v}, Storage: v})
	}
	var got []string
	for _, g := range newCatalogue(resource.NewRegistry(all...).Load(), nil, nil).groups {
		for _, gv := range g.versions {
			got = append(got, gv.String())
		}
	}
	want := []string{"v1", "apps/v1", "batch/v1", "apiextensions.k8s.io/v1", "coordination.k8s.io/v1", "ant.com/v10", "ant.com/v1", "ant.com/v1beta1", "zoo.com/v1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestRoot(t *testing.T) {
	s := newServer(t, func(o *Options) { o.OpenAPI = http.NotFoundHandler() })
	paths := decode[metav1.RootPaths](t, s.must(200, "GET", "/", "")).Paths
	want := strings.Fields(`/api /api/v1 /apis /apis/ /apis/example.com /apis/example.com/v1 /apis/example.com/v1beta1 /healthz /healthz/log /healthz/ping
		/livez /livez/log /livez/ping /metrics /openapi/v2 /openapi/v3 /openapi/v3/ /readyz /readyz/log /readyz/ping /readyz/shutdown /statusz /version`)
	if diff := cmp.Diff(want, paths); diff != "" {
		t.Error(diff)
	}
	if got := s.must(200, "GET", "/version", ""); !strings.Contains(got, `"gitVersion": "v1.37.0+kapok"`) {
		t.Errorf("version: %s", got)
	}
	s.must(404, "GET", "/version/x", "")
	s.must(405, "POST", "/version", "")
}
