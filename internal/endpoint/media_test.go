package endpoint

import (
	"net/http/httptest"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

func TestParseAccept(t *testing.T) {
	none := schema.GroupVersionKind{}
	table := schema.GroupVersionKind{Group: "meta.k8s.io", Version: "v1", Kind: "Table"}
	beta := table.GroupKind().WithVersion("v1beta1")
	tests := []struct {
		accept string
		rule   rule
		want   media
		ok     bool
	}{
		{"application/json", builtInMedia(), media{asJSON, false, none}, true},
		{"*/*", builtInMedia(), media{asJSON, false, none}, true},
		{"application/*", builtInMedia(), media{asJSON, false, none}, true},
		{"application/yaml", builtInMedia(), media{asYAML, false, none}, true},
		{"application/json;q=0.5,application/yaml", builtInMedia(), media{asYAML, false, none}, true},
		{"application/json;pretty=1", builtInMedia(), media{asJSON, true, none}, true},
		{"application/vnd.kubernetes.protobuf,application/json", builtInMedia(), media{asProtobuf, false, none}, true},
		{"application/vnd.kubernetes.protobuf,application/json", customMedia(), media{asJSON, false, none}, true},
		{"application/vnd.kubernetes.protobuf", customMedia(), media{}, false},
		{"text/html", builtInMedia(), media{}, false},
		{"text/*", builtInMedia(), media{}, false},
		{"application/json;as=Table;v=v1;g=meta.k8s.io,application/json", builtInMedia(), media{asJSON, false, table}, true},
		{"application/json;as=Table;v=v2;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io", builtInMedia(), media{asJSON, false, beta}, true},
		{"application/json;as=Table;v=v1;g=meta.k8s.io", plainMedia(), media{}, false},
		{"application/json;as=Table;v=v1;g=meta.k8s.io,application/json", plainMedia(), media{asJSON, false, none}, true},
		{"application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io", builtInMedia(), media{}, false},
		{"application/json;as=Chair;v=v1;g=meta.k8s.io", builtInMedia(), media{}, false},
		{"application/json;stream=watch", builtInMedia(), media{asJSON, false, none}, true},
		{"application/json;stream=other", builtInMedia(), media{}, false},
		{"application/yaml;stream=watch", builtInMedia(), media{}, false},
		{"application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", aggregatedMedia(),
			media{asJSON, false, schema.GroupVersionKind{Group: "apidiscovery.k8s.io", Version: "v2", Kind: "APIGroupDiscoveryList"}}, true},
		{"application/json", aggregatedMedia(), media{}, false},
		{"application/json;sv=v1", builtInMedia(), media{asJSON, false, none}, true},
		{"application/json;sv=v2", builtInMedia(), media{}, false},
		{"application/json;sv=v1", plainMedia(), media{}, false},
	}
	for _, test := range tests {
		got, ok := parseAccept(test.accept, test.rule)
		if ok != test.ok || ok && got != test.want {
			t.Errorf("%s: %+v %t, want %+v %t", test.accept, got, ok, test.want, test.ok)
		}
	}
}

func FuzzParseAccept(f *testing.F) {
	f.Add("application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
	f.Add("*/*;q=0.1, text/html;q=x, ;;,=")
	f.Fuzz(func(t *testing.T, accept string) {
		for _, allowed := range []rule{plainMedia(), builtInMedia(), customMedia(), aggregatedMedia()} {
			m, ok := parseAccept(accept, allowed)
			if !ok {
				continue
			}
			as := &m.as
			if m.as == (schema.GroupVersionKind{}) {
				as = nil
			}
			if !allowed.allows(m.encoding, as) && as != nil {
				t.Errorf("%q: %+v is not allowed", accept, m)
			}
		}
	})
}

func TestPretty(t *testing.T) {
	tests := []struct {
		target, agent string
		want          bool
	}{
		{"/", "kubectl/v1.37", false},
		{"/", "curl/8", true},
		{"/", "Wget/1", true},
		{"/", "Mozilla/5.0 (X11)", true},
		{"/?pretty=1", "kubectl/v1.37", true},
		{"/?pretty=true", "", true},
		{"/?pretty=0", "curl/8", false},
		{"/?pretty=", "curl/8", true},
	}
	for _, test := range tests {
		r := httptest.NewRequest("GET", test.target, nil)
		r.Header.Set("User-Agent", test.agent)
		if got := wantsPretty(r); got != test.want {
			t.Errorf("%s for %s: %t", test.target, test.agent, got)
		}
	}
}

func TestShapes(t *testing.T) {
	s := newServer(t)
	s.must(201, "POST", widgetPath, "apiVersion: example.com/v1\nkind: Widget\nmetadata:\n  name: a\nspec:\n  size: 3\n", "Content-Type", "application/yaml")
	for _, path := range []string{"/a", ""} {
		plain := s.must(200, "GET", widgetPath+path, "")
		inYAML := s.must(200, "GET", widgetPath+path, "", "Accept", "application/yaml")
		back, err := yaml.YAMLToJSON([]byte(inYAML))
		if err != nil || string(back)+"\n" != plain {
			t.Errorf("YAML is\n%s\nJSON %s\n%v", inYAML, plain, err)
		}
		pretty := s.must(200, "GET", widgetPath+path, "", "User-Agent", "curl/8")
		if compact, err := yaml.YAMLToJSON([]byte(pretty)); err != nil || string(compact)+"\n" != plain || pretty == plain {
			t.Errorf("pretty is\n%s", pretty)
		}
	}
}
