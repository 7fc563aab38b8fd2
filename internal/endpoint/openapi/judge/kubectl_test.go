package judge

import (
	"bytes"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/endpoint/openapi"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	explain "k8s.io/kubectl/pkg/explain/v2"
	kubectlopenapi "k8s.io/kubectl/pkg/util/openapi"
	"k8s.io/kubectl/pkg/validation"
)

func discoveryClient(t *testing.T) *discovery.DiscoveryClient {
	t.Helper()
	snapshot := finishedSnapshot(t)
	snapshot.Resources = append(snapshot.Resources, custom(t)...)
	server := httptest.NewServer(openapi.New(func() *openapi.Snapshot { return snapshot }))
	t.Cleanup(server.Close)
	c, err := discovery.NewDiscoveryClientForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestKubectlExplain(t *testing.T) {
	c := discoveryClient(t)
	for _, e := range []struct {
		resource schema.GroupVersionResource
		fields   []string
		want     []string
	}{
		{schema.GroupVersionResource{Group: "shop.example.com", Version: "v1", Resource: "widgets"}, nil,
			[]string{"GROUP:      shop.example.com", "KIND:       Widget", "Widget is made & sold.", "spec\t<Object> -required-", "metadata\t<ObjectMeta>"}},
		{schema.GroupVersionResource{Group: "shop.example.com", Version: "v1", Resource: "widgets"}, []string{"spec"},
			[]string{"FIELD: spec <Object>", "color\t<string> -required-", "enum: red, green", "ports\t<[]Object>"}},
		{schema.GroupVersionResource{Group: "geo.example.io", Version: "v1alpha1", Resource: "areas"}, []string{"metadata", "name"},
			[]string{"FIELD: name <string>", "Name must be unique"}},
		{schema.GroupVersionResource{Version: "v1", Resource: "pods"}, []string{"spec", "containers", "imagePullPolicy"},
			[]string{"FIELD: imagePullPolicy <string>", "Possible enum values"}},
		{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, nil, []string{"KIND:       Deployment", "spec\t<DeploymentSpec>"}},
	} {
		var out bytes.Buffer
		if err := explain.PrintModelDescription(e.fields, &out, c.OpenAPIV3(), e.resource, false, 0, "plaintext"); err != nil {
			t.Errorf("%v %v: %v", e.resource, e.fields, err)
			continue
		}
		for _, want := range e.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%v %v: %q is missing in\n%s", e.resource, e.fields, want, out.String())
			}
		}
	}
}

// TestKubectlParameters checks that old and new versions of kubectl detect that the server supports
// dry runs and validates fields.
func TestKubectlParameters(t *testing.T) {
	c := discoveryClient(t)
	for _, name := range []resource.VerifiableQueryParam{"dryRun", resource.QueryParamFieldValidation} {
		for which, verifier := range map[string]resource.Verifier{
			"v3": resource.NewQueryParamVerifierV3(nil, c.OpenAPIV3(), name),
			"v2": resource.NewQueryParamVerifier(nil, c, name),
		} {
			for _, kind := range []schema.GroupVersionKind{
				{Version: "v1", Kind: "ConfigMap"},
				{Version: "v1", Kind: "Namespace"},
				{Group: "apps", Version: "v1", Kind: "Deployment"},
				{Group: "shop.example.com", Version: "v1", Kind: "Widget"},
				{Group: "geo.example.io", Version: "v1alpha1", Kind: "Area"},
			} {
				if err := verifier.HasSupport(kind); err != nil {
					t.Errorf("%s %s %v: %v", name, which, kind, err)
				}
			}
		}
	}
}

// TestKubectlValidation checks manifests that kubectl validates itself.
func TestKubectlValidation(t *testing.T) {
	c := discoveryClient(t)
	document, err := c.OpenAPISchema()
	if err != nil {
		t.Fatal(err)
	}
	resources, err := kubectlopenapi.NewOpenAPIData(document)
	if err != nil {
		t.Fatal(err)
	}
	validator := validation.NewSchemaValidation(fixed{resources})
	for _, v := range []struct{ manifest, want string }{
		{`{"apiVersion":"shop.example.com/v1","kind":"Widget","spec":{"color":"red","size":1,"free":{"any":1},"any":{"some":1},"port":"a"}}`, ""},
		{`{"apiVersion":"shop.example.com/v1","kind":"Widget","spec":{"color":"red","size":1,"colour":"red"}}`, `unknown field "colour"`},
		{`{"apiVersion":"shop.example.com/v1","kind":"Widget","spec":{"size":1}}`, `missing required field "color"`},
		{`{"apiVersion":"shop.example.com/v1beta1","kind":"Widget","spec":{"anything":1},"other":2}`, ""},
		{`{"apiVersion":"cnat.programming-kubernetes.info/v1","kind":"At","spec":{"anything":1}}`, ""},
		{`{"apiVersion":"apps/v1","kind":"Deployment","spec":{"selector":{},"template":{},"replicas":1}}`, ""},
		{`{"apiVersion":"apps/v1","kind":"Deployment","spec":{"selector":{},"template":{},"replica":1}}`, `unknown field "replica"`},
	} {
		err := validator.ValidateBytes([]byte(v.manifest))
		if (err == nil) != (v.want == "") || err != nil && !strings.Contains(err.Error(), v.want) {
			t.Errorf("%s: got %v, want %q", v.manifest, err, v.want)
		}
	}
	if gvk := (schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}); resources.LookupResource(gvk) == nil {
		t.Errorf("%v is missing", gvk)
	}
}

type fixed struct{ kubectlopenapi.Resources }

func (f fixed) OpenAPISchema() (kubectlopenapi.Resources, error) { return f.Resources, nil }
