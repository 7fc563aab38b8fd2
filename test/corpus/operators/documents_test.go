package operators

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/kube-openapi/pkg/spec3"
	explain "k8s.io/kubectl/pkg/explain/v2"
)

// testDocuments reads the OpenAPI documents as clients do: each exists, can be parsed, has every
// served version, and has only references that it defines.
func (s *server) testDocuments(t *testing.T, versions []*version) {
	client, err := discovery.NewDiscoveryClientForConfig(s.config)
	if err != nil {
		t.Fatal(err)
	}
	wanted := map[schema.GroupVersion][]*version{}
	for _, v := range versions {
		if v.Served {
			wanted[v.gvk().GroupVersion()] = append(wanted[v.gvk().GroupVersion()], v)
		}
	}
	v2, err := client.OpenAPISchema()
	if err != nil {
		t.Fatal(err)
	}
	described := map[schema.GroupVersionKind]bool{}
	for _, definition := range v2.GetDefinitions().GetAdditionalProperties() {
		for _, extension := range definition.GetValue().GetVendorExtension() {
			if extension.GetName() == "x-kubernetes-group-version-kind" {
				for _, gvk := range kindsIn(extension.GetValue().GetYaml()) {
					described[gvk] = true
				}
			}
		}
	}
	paths, err := client.OpenAPIV3().Paths()
	if err != nil {
		t.Fatal(err)
	}
	for gv, versions := range wanted {
		document := paths["apis/"+gv.String()]
		if document == nil {
			t.Errorf("no OpenAPI v3 document of %s", gv)
			continue
		}
		text, err := document.Schema("application/json")
		if err != nil {
			t.Errorf("OpenAPI v3 of %s: %v", gv, err)
			continue
		}
		var parsed spec3.OpenAPI
		if err := json.Unmarshal(text, &parsed); err != nil {
			t.Errorf("OpenAPI v3 of %s: %v", gv, err)
			continue
		}
		for part := range bytes.SplitSeq(text, []byte(`"$ref":"#/components/schemas/`)) {
			name, _, _ := strings.Cut(string(part), `"`)
			if _, found := parsed.Components.Schemas[name]; !found && !strings.HasPrefix(name, "{") {
				t.Errorf("OpenAPI v3 of %s refers to %s, which it lacks", gv, name)
			}
		}
		kinds := map[schema.GroupVersionKind]bool{}
		for _, model := range parsed.Components.Schemas {
			var of []schema.GroupVersionKind
			if err := model.Extensions.GetObject("x-kubernetes-group-version-kind", &of); err != nil {
				t.Error(err)
			}
			for _, gvk := range of {
				kinds[gvk] = true
			}
		}
		for _, v := range versions {
			if !kinds[v.gvk()] {
				t.Errorf("OpenAPI v3 of %s does not describe %s", gv, v.gvk().Kind)
			}
			if !described[v.gvk()] {
				t.Errorf("OpenAPI v2 does not describe %s", v.gvk())
			}
		}
	}
	t.Logf("OpenAPI v2 with %d definitions, OpenAPI v3 of %d groups and versions", len(v2.GetDefinitions().GetAdditionalProperties()), len(wanted))
}

// kindsIn parses a YAML list of flat maps.
func kindsIn(text string) (kinds []schema.GroupVersionKind) {
	for item := range strings.SplitSeq(text, "- ") {
		var gvk schema.GroupVersionKind
		for line := range strings.Lines(item) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
			switch value = strings.Trim(value, `"`); key {
			case "group":
				gvk.Group = value
			case "version":
				gvk.Version = value
			case "kind":
				gvk.Kind = value
			}
		}
		kinds = append(kinds, gvk)
	}
	return kinds
}

// testExplain runs kubectl's code to explain kinds of the corpus.
func (s *server) testExplain(t *testing.T) {
	client, err := discovery.NewDiscoveryClientForConfig(s.config)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		resource  schema.GroupVersionResource
		fields    []string
		recursive bool
		wants     []string
	}{
		{schema.GroupVersionResource{Group: "cert-manager.io", Version: "v1", Resource: "certificates"}, nil, false,
			[]string{"KIND:       Certificate", "GROUP:      cert-manager.io", "VERSION:    v1", "spec\t<Object>", "metadata\t<ObjectMeta>"}},
		{schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "httproutes"}, []string{"spec", "rules", "matches"}, false,
			[]string{"FIELD: matches <[]Object>", "queryParams\t<[]Object>", "enum: GET, HEAD, POST, PUT, ...."}},
		{schema.GroupVersionResource{Group: "monitoring.coreos.com", Version: "v1", Resource: "prometheuses"}, []string{"spec"}, true,
			[]string{"FIELD: spec <Object>", "matchExpressions\t<[]Object>", "-required-"}},
	} {
		var out bytes.Buffer
		if err := explain.PrintModelDescription(test.fields, &out, client.OpenAPIV3(), test.resource, test.recursive, 0, "plaintext"); err != nil {
			t.Errorf("explain %v: %v", test.resource, err)
			continue
		}
		for _, want := range test.wants {
			if !strings.Contains(out.String(), want) {
				t.Errorf("explain %v lacks %q:\n%.2000s", test.resource, want, &out)
			}
		}
	}
}
