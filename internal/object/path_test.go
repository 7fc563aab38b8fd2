package object

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

var testPaths = NewPaths([]Place{
	{Resource: schema.GroupResource{Resource: "pods"}, Path: "pods"},
	{Resource: schema.GroupResource{Resource: "nodes"}, Path: "minions"},
	{Resource: schema.GroupResource{Resource: "services"}, Path: "services/specs"},
	{Resource: schema.GroupResource{Resource: "endpoints"}, Path: "services/endpoints"},
	{Resource: schema.GroupResource{Group: "apps", Resource: "deployments"}, Path: "deployments"},
	{Resource: schema.GroupResource{Resource: "ranges"}, Path: "ranges", Only: "servicenodeports"},
})

func TestPaths(t *testing.T) {
	for path, key := range map[string]Key{
		"/pods/default/a":               {schema.GroupResource{Resource: "pods"}, "default", "a"},
		"/minions/a":                    {schema.GroupResource{Resource: "nodes"}, "", "a"},
		"/services/specs/default/a":     {schema.GroupResource{Resource: "services"}, "default", "a"},
		"/services/endpoints/default/a": {schema.GroupResource{Resource: "endpoints"}, "default", "a"},
		"/deployments/default/a":        {schema.GroupResource{Group: "apps", Resource: "deployments"}, "default", "a"},
		"/ranges/servicenodeports":      {schema.GroupResource{Resource: "ranges"}, "", "servicenodeports"},
		// Custom resources that are named as built-in ones stay in their group.
		"/example.com/widgets/default/a": {schema.GroupResource{Group: "example.com", Resource: "widgets"}, "default", "a"},
		"/example.com/clusterwidgets/a":  {schema.GroupResource{Group: "example.com", Resource: "clusterwidgets"}, "", "a"},
		"/example.com/deployments/ns/a":  {schema.GroupResource{Group: "example.com", Resource: "deployments"}, "ns", "a"},
	} {
		if got := testPaths.Of(key); got != path {
			t.Errorf("path of %v is %s, want %s", key, got, path)
		}
		if got := key.Under(testPaths.byResource[key.Resource]); got != path {
			t.Errorf("path of %v under the place of its resource is %s, want %s", key, got, path)
		}
		if got, err := testPaths.Parse(path); err != nil || got != key {
			t.Errorf("key of %s is %v, %v, want %v", path, got, err, key)
		}
	}
	for _, path := range []string{"", "/", "/masterleases/10.0.0.1", "/ranges/serviceips", "/ranges/a/servicenodeports", "pods/default/a", "/pods", "/pods/", "/pods/a/", "/pods//a", "/pods/a/b/c", "/services/a", "/services/specs", "/nodes/a", "/example.com/", "/example.com/widgets/", "/peerserverleases/x"} {
		if key, err := testPaths.Parse(path); err == nil {
			t.Errorf("%q is the path of %v", path, key)
		}
	}
}

func TestPathsWithoutPlaces(t *testing.T) {
	var none *Paths
	key := Key{schema.GroupResource{Group: "example.com", Resource: "widgets"}, "default", "a"}
	if got, err := none.Parse(none.Of(key)); err != nil || got != key {
		t.Errorf("key of the path of %v is %v, %v", key, got, err)
	}
	if key, err := none.Parse("/pods/default/a"); err == nil {
		t.Errorf("without places, /pods/default/a is the path of %v", key)
	}
}

func FuzzParsePath(f *testing.F) {
	f.Add("/services/specs/default/a")
	f.Fuzz(func(t *testing.T, path string) {
		if key, err := testPaths.Parse(path); err == nil && testPaths.Of(key) != path {
			t.Errorf("%q is the path of %v, whose path is %q", path, key, testPaths.Of(key))
		}
	})
}
