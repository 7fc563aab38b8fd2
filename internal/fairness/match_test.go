package fairness

import (
	"testing"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authz"
)

// TestClassify checks the schema and the level of requests with the default configuration. The
// expected values follow from KEP-1040 and the default schemas.
func TestClassify(t *testing.T) {
	l := New(Config{})
	defer l.Close()
	account := func(namespace, name string) *authn.User {
		return &authn.User{Name: "system:serviceaccount:" + namespace + ":" + name,
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, authn.Authenticated}}
	}
	user := func(name string, groups ...string) *authn.User {
		return &authn.User{Name: name, Groups: append(groups, authn.Authenticated)}
	}
	anonymous := &authn.User{Name: authn.Anonymous, Groups: []string{authn.Unauthenticated}}
	path := func(verb, path string) authz.Attributes { return authz.Attributes{Verb: verb, Path: path} }
	object := func(verb, group, resource, namespace string) authz.Attributes {
		return authz.Attributes{Verb: verb, ResourceRequest: true, APIGroup: group, Resource: resource, Namespace: namespace}
	}
	for _, tc := range []struct {
		name          string
		user          *authn.User
		a             authz.Attributes
		schema, level string
	}{
		{"admin", authn.Admin(), object("delete", "", "pods", "x"), "exempt", "exempt"},
		{"probe", anonymous, path("get", "/livez"), "probes", "exempt"},
		{"probe of a user", user("a"), path("get", "/readyz"), "probes", "exempt"},
		{"below a probe", anonymous, path("get", "/livez/ping"), "probes", "exempt"},
		{"like a probe", anonymous, path("get", "/livezz"), "global-default", "global-default"},
		{"not a read of a probe", anonymous, path("post", "/livez"), "global-default", "global-default"},
		{"node", user("system:node:a", "system:nodes"), object("list", "", "pods", ""), "system-nodes", "system"},
		{"node's status", user("system:node:a", "system:nodes"), authz.Attributes{Verb: "patch", ResourceRequest: true, Resource: "nodes", Subresource: "status", Name: "a"}, "system-node-high", "node-high"},
		{"node's lease", user("system:node:a", "system:nodes"), object("update", "coordination.k8s.io", "leases", "kube-node-lease"), "system-node-high", "node-high"},
		{"leader", user("system:kube-scheduler"), object("update", "coordination.k8s.io", "leases", "kube-system"), "system-leader-election", "leader-election"},
		{"leader in kube-system", account("kube-system", "x"), object("get", "coordination.k8s.io", "leases", "kube-system"), "system-leader-election", "leader-election"},
		{"leader elsewhere", account("shop", "x"), object("get", "coordination.k8s.io", "leases", "kube-system"), "service-accounts", "workload-low"},
		{"namespace that begins the same", account("kube-system2", "x"), object("get", "coordination.k8s.io", "leases", "kube-system"), "service-accounts", "workload-low"},
		{"scheduler", user("system:kube-scheduler"), object("list", "", "pods", ""), "kube-scheduler", "workload-high"},
		{"controllers", user("system:kube-controller-manager"), path("get", "/api"), "kube-controller-manager", "workload-high"},
		{"account in kube-system", account("kube-system", "x"), object("list", "", "pods", ""), "kube-system-service-accounts", "workload-high"},
		{"account", account("shop", "x"), object("list", "", "pods", ""), "service-accounts", "workload-low"},
		{"account's path", account("shop", "x"), path("get", "/openapi/v3"), "service-accounts", "workload-low"},
		{"user", user("bob"), object("list", "", "pods", ""), "global-default", "global-default"},
		{"anonymous", anonymous, object("list", "", "pods", ""), "global-default", "global-default"},
		{"no group", &authn.User{Name: "x"}, object("list", "", "pods", ""), "catch-all", "catch-all"},
	} {
		tc.a.User = tc.user
		f := l.configuration().classify(&tc.a)
		if f.schema.name != tc.schema || f.level.name != tc.level {
			t.Errorf("%s: %s, %s; want %s, %s", tc.name, f.schema.name, f.level.name, tc.schema, tc.level)
		}
	}
}
