package openapi

import (
	"net/http/httptest"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/openapi3"
	"k8s.io/client-go/rest"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/util/proto"
	"k8s.io/kube-openapi/pkg/util/proto/validation"
)

func client(t *testing.T, snapshot *Snapshot) *discovery.DiscoveryClient {
	t.Helper()
	server := httptest.NewServer(New(func() *Snapshot { return snapshot }))
	t.Cleanup(server.Close)
	c, err := discovery.NewDiscoveryClientForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestClientV3 reads the documents as client-go does, and finds in them what kubectl looks for.
func TestClientV3(t *testing.T) {
	c := client(t, snapshotOf(at("1", nil)))
	root := openapi3.NewRoot(c.OpenAPIV3())
	versions, err := root.GroupVersions()
	if err != nil {
		t.Fatal(err)
	}
	for _, gv := range []schema.GroupVersion{{Version: "v1"}, {Group: "apps", Version: "v1"}, {Group: "cnat.example.com", Version: "v1alpha1"}} {
		if !slices.Contains(versions, gv) {
			t.Errorf("%v is not among %v", gv, versions)
		}
	}
	for kind, path := range map[schema.GroupVersionKind]string{
		{Version: "v1", Kind: "ConfigMap"}:                                  "/api/v1/namespaces/{namespace}/configmaps/{name}",
		{Group: "apps", Version: "v1", Kind: "Deployment"}:                  "/apis/apps/v1/namespaces/{namespace}/deployments/{name}",
		{Group: "cnat.example.com", Version: "v1alpha1", Kind: "At"}:        "/apis/cnat.example.com/v1alpha1/namespaces/{namespace}/ats/{name}",
		{Group: "cnat.example.com", Version: "v1alpha1", Kind: "At/status"}: "/apis/cnat.example.com/v1alpha1/namespaces/{namespace}/ats/{name}/status",
		{Group: "cnat.example.com", Version: "v1alpha1", Kind: "At/scale"}:  "/apis/cnat.example.com/v1alpha1/namespaces/{namespace}/ats/{name}/scale",
	} {
		document, err := root.GVSpec(kind.GroupVersion())
		if err != nil {
			t.Errorf("%v: %v", kind, err)
			continue
		}
		item := document.Paths.Paths[path]
		if item == nil || item.Patch == nil {
			t.Errorf("%v: no PATCH of %s", kind, path)
			continue
		}
		if marked, ok := item.Patch.Extensions[keyKinds].(map[string]any); !ok || marked["group"] != kind.Group || marked["version"] != kind.Version {
			t.Errorf("%v: the operation is marked %v", kind, item.Patch.Extensions[keyKinds])
		}
		for _, name := range []string{"fieldValidation", "dryRun", "fieldManager", "force"} {
			if !slices.ContainsFunc(item.Patch.Parameters, func(p *spec3.Parameter) bool { return p.Name == name }) &&
				!slices.ContainsFunc(item.Parameters, func(p *spec3.Parameter) bool { return p.Name == name }) {
				t.Errorf("%v: PATCH has no parameter %s", kind, name)
			}
		}
	}
}

// TestClientV3Protobuf reads a document in protobuf.
func TestClientV3Protobuf(t *testing.T) {
	c := client(t, snapshotOf(at("1", nil)))
	paths, err := c.OpenAPIV3().Paths()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"api/v1", "apis/cnat.example.com/v1alpha1"} {
		for _, typ := range []string{openapi.ContentTypeOpenAPIV3PB, "application/json"} {
			content, err := paths[name].Schema(typ)
			if err != nil || len(content) == 0 {
				t.Errorf("%s as %s: %d bytes, %v", name, typ, len(content), err)
			}
		}
	}
}

// TestClientV2 validates objects with the document of version 2, as clients did before servers
// validated fields.
func TestClientV2(t *testing.T) {
	untyped := at("1", nil)
	untyped.Plural, untyped.Kind, untyped.ListKind = "anythings", "Anything", "AnythingList"
	untyped.Custom = &Custom{Fingerprint: "1"}
	document, err := client(t, snapshotOf(at("1", nil), untyped)).OpenAPISchema()
	if err != nil {
		t.Fatal(err)
	}
	models, err := proto.NewOpenAPIData(document)
	if err != nil {
		t.Fatal(err)
	}
	const atModel, pod = "com.example.cnat.v1alpha1.At", "io.k8s.api.core.v1.Pod"
	for _, c := range []struct {
		model  string
		value  object
		errors int
	}{
		{atModel, object{"apiVersion": "a", "kind": "b", "metadata": object{"name": "c"}, "spec": object{"schedule": "d", "port": "http"}}, 0},
		{atModel, object{"spec": object{"schedule": "d", "port": int64(80)}, "status": nil}, 0},
		{atModel, object{"spec": object{}}, 1},
		{atModel, object{"spec": object{"schedule": "d", "nothing": "e"}}, 1},
		{atModel, object{"spec": object{"schedule": []any{"a"}}}, 1},
		{atModel, object{}, 1},
		{"com.example.cnat.v1alpha1.Anything", object{"spec": object{"nothing": int64(1)}}, 0},
		{pod, object{"spec": object{"containers": []any{object{"name": "a", "ports": []any{object{"containerPort": int64(80)}}}}}}, 0},
		{pod, object{"spec": object{"containers": []any{object{"image": "a"}}}}, 1},
		{pod, object{"spec": object{"container": []any{}}}, 2},
	} {
		model := models.LookupModel(c.model)
		if model == nil {
			t.Errorf("%s is missing", c.model)
			continue
		}
		if errs := validation.ValidateModel(c.value, model, c.model); len(errs) != c.errors {
			t.Errorf("%s %v: %d errors %v, want %d", c.model, c.value, len(errs), errs, c.errors)
		}
	}
}
