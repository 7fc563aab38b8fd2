package judge

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/kapok-dev/kapok/internal/endpoint/openapi"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/handler"
	"sigs.k8s.io/yaml"
)

func getAs(t *testing.T, handler http.Handler, path, accept string) []byte {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	return w.Body.Bytes()
}

func definitions(t *testing.T) map[string]*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no test data: %v", err)
	}
	all := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		crd := new(apiextensionsv1.CustomResourceDefinition)
		if err := yaml.UnmarshalStrict(raw, crd); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if crd.Spec.Names.ListKind == "" {
			crd.Spec.Names.ListKind = crd.Spec.Names.Kind + "List"
		}
		all[filepath.Base(file)] = crd
	}
	return all
}

func resourcesOf(crd *apiextensionsv1.CustomResourceDefinition) []openapi.Resource {
	var all []openapi.Resource
	for i, v := range crd.Spec.Versions {
		custom := &openapi.Custom{
			Fingerprint:           fmt.Sprint(crd.Name, i),
			PreserveUnknownFields: crd.Spec.PreserveUnknownFields,
			Schema: func() ([]byte, error) {
				if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
					return nil, nil
				}
				return json.Marshal(v.Schema.OpenAPIV3Schema)
			},
		}
		for _, field := range v.SelectableFields {
			custom.SelectableFields = append(custom.SelectableFields, field.JSONPath)
		}
		r := openapi.Resource{
			Group: crd.Spec.Group, Version: v.Name,
			Plural: crd.Spec.Names.Plural, Kind: crd.Spec.Names.Kind, ListKind: crd.Spec.Names.ListKind,
			Namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped,
			Verbs:      []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
			Custom:     custom,
		}
		write := []string{"get", "patch", "update"}
		if v.Subresources != nil && v.Subresources.Status != nil {
			kind := schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
			r.Subresources = append(r.Subresources, openapi.Subresource{Name: "status", Kind: kind, Verbs: write})
		}
		if v.Subresources != nil && v.Subresources.Scale != nil {
			kind := schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}
			r.Subresources = append(r.Subresources, openapi.Subresource{Name: "scale", Kind: kind, Verbs: write})
		}
		all = append(all, r)
	}
	return all
}

func custom(t *testing.T) (all []openapi.Resource) {
	for _, crd := range definitions(t) {
		all = append(all, resourcesOf(crd)...)
	}
	return all
}

// sharedKinds are known to be shorter in Kapok's documents of custom kinds.
func sharedKinds(document object, at ...string) object {
	schemas := document
	for _, key := range at {
		schemas = schemas[key].(object)
	}
	for _, name := range []string{"DeleteOptions", "WatchEvent"} {
		if s, ok := schemas["io.k8s.apimachinery.pkg.apis.meta.v1."+name].(object); ok {
			delete(s, "x-kubernetes-group-version-kind")
		}
	}
	return document
}

func TestCustomV3(t *testing.T) {
	for file, crd := range definitions(t) {
		snapshot := &openapi.Snapshot{Version: "unversioned", Resources: resourcesOf(crd)}
		ours := openapi.New(func() *openapi.Snapshot { return snapshot })
		for _, v := range crd.Spec.Versions {
			document, err := builder.BuildOpenAPIV3(crd, v.Name, builder.Options{IncludeSelectableFields: true})
			if err != nil {
				t.Fatal(err)
			}
			raw, err := json.Marshal(document)
			if err != nil {
				t.Fatal(err)
			}
			got := decode(t, get(t, ours, "/openapi/v3/apis/"+crd.Spec.Group+"/"+v.Name))
			report(t, differences(file+" "+v.Name,
				normalise(sharedKinds(got, "components", "schemas")), normalise(sharedKinds(decode(t, raw), "components", "schemas"))))
		}
	}
}

func TestCustomV2(t *testing.T) {
	for file, crd := range definitions(t) {
		for i, v := range crd.Spec.Versions {
			snapshot := &openapi.Snapshot{Version: "unversioned", Resources: resourcesOf(crd)[i : i+1]}
			ours := openapi.New(func() *openapi.Snapshot { return snapshot })
			document, err := builder.BuildOpenAPIV2(crd, v.Name, builder.Options{V2: true, IncludeSelectableFields: true})
			if err != nil {
				t.Fatal(err)
			}
			document.Definitions = handler.PruneDefaults(document.Definitions)
			raw, err := document.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			got, want := resolve(decode(t, get(t, ours, "/openapi/v2"))), resolve(decode(t, raw))
			for _, key := range []string{"info", "security", "securityDefinitions"} {
				delete(got, key)
				delete(want, key)
			}
			for _, path := range []string{"/api/", "/apis/", "/version/"} {
				delete(got["paths"].(object), path)
			}
			for name := range got["definitions"].(object) {
				switch name { // what these paths refer to
				case "io.k8s.apimachinery.pkg.version.Info", "io.k8s.apimachinery.pkg.apis.meta.v1.APIVersions", "io.k8s.apimachinery.pkg.apis.meta.v1.APIGroup",
					"io.k8s.apimachinery.pkg.apis.meta.v1.APIGroupList", "io.k8s.apimachinery.pkg.apis.meta.v1.GroupVersionForDiscovery",
					"io.k8s.apimachinery.pkg.apis.meta.v1.ServerAddressByClientCIDR":
					delete(got["definitions"].(object), name)
				}
			}
			report(t, differences(file+" "+v.Name, normalise(sharedKinds(got, "definitions")), normalise(sharedKinds(want, "definitions"))))
		}
	}
}
