package auth_test

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kapok-dev/kapok/internal/auth"
)

func TestAuthorize(t *testing.T) {
	anonymous := &auth.User{Name: "system:anonymous", Groups: []string{"system:unauthenticated"}}
	alice := &auth.User{Name: "alice", Groups: []string{"system:authenticated"}}
	named := &auth.User{Name: "system:masters", Groups: []string{"system:authenticated"}}
	for _, tc := range []struct {
		name string
		ask  auth.Attributes
		want string // the refusal; empty if the user may
	}{
		{"admin reads", auth.Attributes{User: auth.Admin(), Verb: "get", Path: "/api"}, ""},
		{"admin writes", auth.Attributes{User: auth.Admin(), Verb: "delete", ResourceRequest: true, Resource: "pods", Namespace: "x"}, ""},
		{"health", auth.Attributes{User: anonymous, Verb: "get", Path: "/healthz"}, ""},
		{"health, head", auth.Attributes{User: anonymous, Verb: "head", Path: "/livez"}, ""},
		{"readiness", auth.Attributes{User: alice, Verb: "get", Path: "/readyz"}, ""},
		{"version", auth.Attributes{User: anonymous, Verb: "get", Path: "/version"}, `forbidden: User "system:anonymous" cannot get path "/version"`},
		{"nobody at all", auth.Attributes{Verb: "get", Path: "/version"}, `forbidden: User "" cannot get path "/version"`},
		{"version, post", auth.Attributes{User: anonymous, Verb: "post", Path: "/version"},
			`forbidden: User "system:anonymous" cannot post path "/version"`},
		{"health, post", auth.Attributes{User: anonymous, Verb: "post", Path: "/healthz"},
			`forbidden: User "system:anonymous" cannot post path "/healthz"`},
		{"a single check", auth.Attributes{User: anonymous, Verb: "get", Path: "/readyz/ping"},
			`forbidden: User "system:anonymous" cannot get path "/readyz/ping"`},
		{"what looks like health", auth.Attributes{User: anonymous, Verb: "get", Path: "/healthz/../api"},
			`forbidden: User "system:anonymous" cannot get path "/healthz/../api"`},
		{"discovery", auth.Attributes{User: anonymous, Verb: "get", Path: "/api"},
			`forbidden: User "system:anonymous" cannot get path "/api"`},
		{"a user called like the group", auth.Attributes{User: named, Verb: "get", Path: "/metrics"},
			`forbidden: User "system:masters" cannot get path "/metrics"`},
		{"markup", auth.Attributes{User: anonymous, Verb: "get", Path: "/<b>&"},
			`forbidden: User "system:anonymous" cannot get path "/&lt;b&gt;&amp;"`},
		{"a resource that is called like a path", auth.Attributes{User: anonymous, Verb: "get", Path: "/healthz", ResourceRequest: true, Resource: "pods"},
			`pods is forbidden: User "system:anonymous" cannot get resource "pods" in API group "" at the cluster scope`},
		{"list in a namespace", auth.Attributes{User: alice, Verb: "list", ResourceRequest: true, Resource: "pods", Namespace: "default"},
			`pods is forbidden: User "alice" cannot list resource "pods" in API group "" in the namespace "default"`},
		{"an object of a group", auth.Attributes{User: alice, Verb: "patch", ResourceRequest: true, APIGroup: "apps", Resource: "deployments",
			Subresource: "scale", Namespace: "default", Name: "web"},
			`deployments.apps "web" is forbidden: User "alice" cannot patch resource "deployments/scale" in API group "apps" in the namespace "default"`},
		{"cluster scope", auth.Attributes{User: alice, Verb: "get", ResourceRequest: true, Resource: "nodes", Name: "n1"},
			`nodes "n1" is forbidden: User "alice" cannot get resource "nodes" in API group "" at the cluster scope`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := auth.Check(t.Context(), auth.Basic{}, &tc.ask)
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
	if u := auth.UserFrom(context.Background()); u != nil {
		t.Errorf("got %v from an empty context", u)
	}
	alice := &auth.User{Name: "alice"}
	if u := auth.UserFrom(auth.WithUser(context.Background(), alice)); u != alice {
		t.Errorf("got %v", u)
	}
}
