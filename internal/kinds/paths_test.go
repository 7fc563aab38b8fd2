package kinds

import (
	"testing"

	"github.com/kapok-dev/kapok/internal/object"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestPaths(t *testing.T) {
	for path, key := range map[string]object.Key{
		"/pods/default/a":                             {Resource: schema.GroupResource{Resource: "pods"}, Namespace: "default", Name: "a"},
		"/minions/a":                                  {Resource: schema.GroupResource{Resource: "nodes"}, Name: "a"},
		"/services/specs/default/a":                   {Resource: schema.GroupResource{Resource: "services"}, Namespace: "default", Name: "a"},
		"/services/endpoints/default/a":               {Resource: schema.GroupResource{Resource: "endpoints"}, Namespace: "default", Name: "a"},
		"/controllers/default/a":                      {Resource: schema.GroupResource{Resource: "replicationcontrollers"}, Namespace: "default", Name: "a"},
		"/events/default/a":                           {Resource: schema.GroupResource{Resource: "events"}, Namespace: "default", Name: "a"},
		"/ingress/default/a":                          {Resource: schema.GroupResource{Group: "networking.k8s.io", Resource: "ingresses"}, Namespace: "default", Name: "a"},
		"/deployments/default/a":                      {Resource: schema.GroupResource{Group: "apps", Resource: "deployments"}, Namespace: "default", Name: "a"},
		"/leases/kube-system/a":                       {Resource: schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}, Namespace: "kube-system", Name: "a"},
		"/leasecandidates/kube-system/a":              {Resource: schema.GroupResource{Group: "coordination.k8s.io", Resource: "leasecandidates"}, Namespace: "kube-system", Name: "a"},
		"/storageversions/a":                          {Resource: schema.GroupResource{Group: "internal.apiserver.k8s.io", Resource: "storageversions"}, Name: "a"},
		"/ranges/servicenodeports":                    {Resource: schema.GroupResource{Resource: "ranges"}, Name: "servicenodeports"},
		"/clusterroles/system:node":                   {Resource: schema.GroupResource{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}, Name: "system:node"},
		"/resourceclaims/default/a":                   {Resource: schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceclaims"}, Namespace: "default", Name: "a"},
		"/example.com/widgets/default/a":              {Resource: schema.GroupResource{Group: "example.com", Resource: "widgets"}, Namespace: "default", Name: "a"},
		"/example.com/deployments/ns/a":               {Resource: schema.GroupResource{Group: "example.com", Resource: "deployments"}, Namespace: "ns", Name: "a"},
		"/apiregistration.k8s.io/apiservices/v1.apps": {Resource: schema.GroupResource{Group: "apiregistration.k8s.io", Resource: "apiservices"}, Name: "v1.apps"},
		"/apiextensions.k8s.io/customresourcedefinitions/widgets.example.com": {Resource: schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}, Name: "widgets.example.com"},
	} {
		if got := Paths().Of(key); got != path {
			t.Errorf("path of %v is %s, want %s", key, got, path)
		}
		if got, err := Paths().Parse(path); err != nil || got != key {
			t.Errorf("key of %s is %v, %v, want %v", path, got, err, key)
		}
	}
	for _, path := range []string{"/masterleases/10.0.0.1", "/ranges/serviceips", "/nodes/a", "/services/default/a", "/bindings/default/a", "/tokenreviews/a", "/peerserverleases/x"} {
		if key, err := Paths().Parse(path); err == nil {
			t.Errorf("%q is the path of %v", path, key)
		}
	}
	// Messages take the path from the definition, the journal from Paths.
	for _, d := range Definitions() {
		key := d.Key("default", "a")
		if got, want := key.Under(d.StoredAt), Paths().Of(key); got != want {
			t.Errorf("%s are stored at %s, and by their definition at %s", d.GroupResource(), want, got)
		}
		if got, err := Paths().Parse(Paths().Of(key)); d.Action == nil && (err != nil || got != key) {
			t.Errorf("key of the path of %v is %v, %v", key, got, err)
		}
	}
}
