package object

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestPath(t *testing.T) {
	for path, key := range map[string]Key{
		"/pods/default/a":                             {schema.GroupResource{Resource: "pods"}, "default", "a"},
		"/minions/a":                                  {schema.GroupResource{Resource: "nodes"}, "", "a"},
		"/services/specs/default/a":                   {schema.GroupResource{Resource: "services"}, "default", "a"},
		"/services/endpoints/default/a":               {schema.GroupResource{Resource: "endpoints"}, "default", "a"},
		"/controllers/default/a":                      {schema.GroupResource{Resource: "replicationcontrollers"}, "default", "a"},
		"/ingress/default/a":                          {schema.GroupResource{Group: "networking.k8s.io", Resource: "ingresses"}, "default", "a"},
		"/deployments/default/a":                      {schema.GroupResource{Group: "apps", Resource: "deployments"}, "default", "a"},
		"/leases/kube-system/a":                       {schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}, "kube-system", "a"},
		"/ranges/servicenodeports":                    {schema.GroupResource{Resource: "ranges"}, "", "servicenodeports"},
		"/clusterroles/system:node":                   {schema.GroupResource{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}, "", "system:node"},
		"/example.com/widgets/default/a":              {schema.GroupResource{Group: "example.com", Resource: "widgets"}, "default", "a"},
		"/example.com/clusterwidgets/a":               {schema.GroupResource{Group: "example.com", Resource: "clusterwidgets"}, "", "a"},
		"/example.com/deployments/ns/a":               {schema.GroupResource{Group: "example.com", Resource: "deployments"}, "ns", "a"},
		"/apiregistration.k8s.io/apiservices/v1.apps": {schema.GroupResource{Group: "apiregistration.k8s.io", Resource: "apiservices"}, "", "v1.apps"},
		"/apiextensions.k8s.io/customresourcedefinitions/widgets.example.com": {schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}, "", "widgets.example.com"},
	} {
		if got := key.Path(); got != path {
			t.Errorf("path of %v is %s, want %s", key, got, path)
		}
		if got, err := ParsePath(path); err != nil || got != key {
			t.Errorf("key of %s is %v, %v, want %v", path, got, err, key)
		}
	}
	for _, path := range []string{"", "/", "/masterleases/10.0.0.1", "/ranges/serviceips", "/pods", "/pods/", "/pods/a/", "/pods//a", "/pods/a/b/c", "/example.com/", "/example.com/widgets/", "/peerserverleases/x"} {
		if key, err := ParsePath(path); err == nil {
			t.Errorf("%q is the path of %v", path, key)
		}
	}
}

func FuzzParsePath(f *testing.F) {
	f.Add("/services/specs/default/a")
	f.Fuzz(func(t *testing.T, path string) {
		if key, err := ParsePath(path); err == nil && key.Path() != path {
			t.Errorf("%q is the path of %v, whose path is %q", path, key, key.Path())
		}
	})
}
