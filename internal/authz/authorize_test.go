package authz_test

import (
	"context"
	"testing"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authz"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAuthorize(t *testing.T) {
	anonymous := &authn.User{Name: "system:anonymous", Groups: []string{"system:unauthenticated"}}
	alice := &authn.User{Name: "alice", Groups: []string{"system:authenticated"}}
	named := &authn.User{Name: "system:masters", Groups: []string{"system:authenticated"}}
	for _, tc := range []struct {
		name string
		ask  authz.Attributes
		want string // the error; empty if the request is allowed
	}{
		{"admin reads", authz.Attributes{User: authn.Admin(), Verb: "get", Path: "/api"}, ""},
		{"admin writes", authz.Attributes{User: authn.Admin(), Verb: "delete", ResourceRequest: true, Resource: "pods", Namespace: "x"}, ""},
		{"health", authz.Attributes{User: anonymous, Verb: "get", Path: "/healthz"}, ""},
		{"health, head", authz.Attributes{User: anonymous, Verb: "head", Path: "/livez"}, ""},
		{"readiness", authz.Attributes{User: alice, Verb: "get", Path: "/readyz"}, ""},
		{"version", authz.Attributes{User: anonymous, Verb: "get", Path: "/version"}, `forbidden: User "system:anonymous" cannot get path "/version"`},
		{"no user", authz.Attributes{Verb: "get", Path: "/version"}, `forbidden: User "" cannot get path "/version"`},
		{"version, post", authz.Attributes{User: anonymous, Verb: "post", Path: "/version"},
			`forbidden: User "system:anonymous" cannot post path "/version"`},
		{"health, post", authz.Attributes{User: anonymous, Verb: "post", Path: "/healthz"},
			`forbidden: User "system:anonymous" cannot post path "/healthz"`},
		{"a single check", authz.Attributes{User: anonymous, Verb: "get", Path: "/readyz/ping"},
			`forbidden: User "system:anonymous" cannot get path "/readyz/ping"`},
		{"what looks like health", authz.Attributes{User: anonymous, Verb: "get", Path: "/healthz/../api"},
			`forbidden: User "system:anonymous" cannot get path "/healthz/../api"`},
		{"discovery", authz.Attributes{User: anonymous, Verb: "get", Path: "/api"},
			`forbidden: User "system:anonymous" cannot get path "/api"`},
		{"a user called like the group", authz.Attributes{User: named, Verb: "get", Path: "/metrics"},
			`forbidden: User "system:masters" cannot get path "/metrics"`},
		{"markup", authz.Attributes{User: anonymous, Verb: "get", Path: "/<b>&"},
			`forbidden: User "system:anonymous" cannot get path "/&lt;b&gt;&amp;"`},
		{"a resource that is called like a path", authz.Attributes{User: anonymous, Verb: "get", Path: "/healthz", ResourceRequest: true, Resource: "pods"},
			`pods is forbidden: User "system:anonymous" cannot get resource "pods" in API group "" at the cluster scope`},
		{"list in a namespace", authz.Attributes{User: alice, Verb: "list", ResourceRequest: true, Resource: "pods", Namespace: "default"},
			`pods is forbidden: User "alice" cannot list resource "pods" in API group "" in the namespace "default"`},
		{"an object of a group", authz.Attributes{User: alice, Verb: "patch", ResourceRequest: true, APIGroup: "apps", Resource: "deployments",
			Subresource: "scale", Namespace: "default", Name: "web"},
			`deployments.apps "web" is forbidden: User "alice" cannot patch resource "deployments/scale" in API group "apps" in the namespace "default"`},
		{"cluster scope", authz.Attributes{User: alice, Verb: "get", ResourceRequest: true, Resource: "nodes", Name: "n1"},
			`nodes "n1" is forbidden: User "alice" cannot get resource "nodes" in API group "" at the cluster scope`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := authz.Check(t.Context(), authz.Basic{}, &tc.ask)
			if tc.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			wantStatus(t, err, 403, metav1.StatusReasonForbidden, tc.want)
			if err.Error() != tc.want {
				t.Errorf("got  %s\nwant %s", err, tc.want)
			}
		})
	}
}

func TestUserInContext(t *testing.T) {
	if u := authn.UserFrom(context.Background()); u != nil {
		t.Errorf("got %v from an empty context", u)
	}
	alice := &authn.User{Name: "alice"}
	if u := authn.UserFrom(authn.WithUser(context.Background(), alice)); u != alice {
		t.Errorf("got %v", u)
	}
}
