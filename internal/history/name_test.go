package history

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestNames(t *testing.T) {
	for _, test := range []struct {
		of   schema.GroupResource
		name string
		want string
	}{
		{schema.GroupResource{Resource: "configmaps"}, "settings", "configmaps:settings:7"},
		{schema.GroupResource{Group: "apps", Resource: "deployments"}, "web", "deployments.apps:web:7"},
		{schema.GroupResource{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}, "system:node:7", "clusterroles.rbac.authorization.k8s.io:system:node:7:7"},
	} {
		got := nameOf(test.of, test.name, 7)
		if got != test.want {
			t.Errorf("%s, want %s", got, test.want)
		}
		if of, name, rev, err := parseName(got); of != test.of || name != test.name || rev != 7 || err != nil {
			t.Errorf("%s is %v %s %d, %v", got, of, name, rev, err)
		}
	}
	for _, bad := range []string{"", "a", "a:b", ":a:1", "a::1", "a:b:", "a:b:0", "a:b:-1", "a:b:01", "a:b:x", "a:b:99999999999999999999"} {
		if of, name, rev, err := parseName(bad); err == nil {
			t.Errorf("%q is %v %s %d", bad, of, name, rev)
		}
	}
}

func TestAccepts(t *testing.T) {
	for _, test := range []struct {
		header, table string
		ok            bool
	}{
		{"", "", true},
		{"application/json", "", true},
		{"*/*", "", true},
		{"application/json;as=Table;v=v1;g=meta.k8s.io,application/json", "v1", true},
		{"application/json;as=Table;v=v2;g=meta.k8s.io,application/json", "", true},
		{"application/vnd.kubernetes.protobuf,application/json", "", true},
		{"application/vnd.kubernetes.protobuf", "", false},
		{"application/yaml", "", false},
	} {
		if table, ok := accepts([]string{test.header}); table != test.table || ok != test.ok {
			t.Errorf("%q: %q, %v", test.header, table, ok)
		}
	}
}
