package auth_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kapok-dev/kapok/internal/auth"
)

// grants allow what is listed, as "verb group/resource[/subresource] [namespace/]name" or "verb path", and remember what
// was asked.
type grants struct {
	allowed []string
	asked   []string
	extra   map[string][]string // of the user who asked last
	err     error
}

func (g *grants) Authorize(_ context.Context, a *auth.Attributes) (auth.Decision, string, error) {
	text := a.Verb + " " + a.Path
	if a.ResourceRequest {
		text = a.Verb + " " + a.APIGroup + "/" + a.Resource
		if a.Subresource != "" {
			text += "/" + a.Subresource
		}
		text += " "
		if a.Namespace != "" {
			text += a.Namespace + "/"
		}
		text += a.Name
	}
	g.asked = append(g.asked, text)
	g.extra = a.User.Extra
	if slices.Contains(g.allowed, text) {
		return auth.Allow, "", nil
	}
	return auth.NoOpinion, "", g.err
}

// TestConstrainedImpersonation: who may be whom, by which permissions (KEP-5284).
func TestConstrainedImpersonation(t *testing.T) {
	const (
		authn   = "authentication.k8s.io/"
		robot   = "system:serviceaccount:default:robot"
		nodeKey = "authentication.kubernetes.io/node-name"
	)
	agent := &auth.User{Name: "system:serviceaccount:kube-system:agent", Extra: map[string][]string{nodeKey: {"n1"}, "b": {"x"}}}
	for _, tc := range []struct {
		name    string
		sender  *auth.User
		header  http.Header
		allowed string // separated by ", "
		err     error  // of the authorizer
		want    *auth.User
		text    string // of the refusal
		asked   string // if not empty, separated by ", "
	}{
		{name: "a user on a request", header: http.Header{"Impersonate-User": {"bob"}},
			allowed: "impersonate-on:user-info:list /pods , impersonate:user-info " + authn + "users bob",
			want:    &auth.User{Name: "bob", Groups: []string{"system:authenticated"}}},
		{name: "a user, but not on this request", header: http.Header{"Impersonate-User": {"bob"}},
			allowed: "impersonate:user-info " + authn + "users bob",
			text:    `pods is forbidden: User "eve" cannot impersonate-on:user-info:list resource "pods" in API group "" at the cluster scope`,
			asked:   "impersonate-on:user-info:list /pods , impersonate /users bob"},
		{name: "on this request, but not the user", header: http.Header{"Impersonate-User": {"bob"}},
			allowed: "impersonate-on:user-info:list /pods ",
			text:    `users.authentication.k8s.io "bob" is forbidden: User "eve" cannot impersonate:user-info resource "users" in API group "authentication.k8s.io" at the cluster scope`},
		{name: "the way of old", header: http.Header{"Impersonate-User": {"bob"}, "Impersonate-Group": {"a"}, "Impersonate-Uid": {"7"}, "Impersonate-Extra-K": {"v"}},
			allowed: "impersonate /users bob, impersonate /groups a, impersonate " + authn + "uids 7, impersonate " + authn + "userextras/k v",
			want:    &auth.User{Name: "bob", UID: "7", Groups: []string{"a", "system:authenticated"}, Extra: map[string][]string{"k": {"v"}}}},
		{name: "masters by the way of old only", header: http.Header{"Impersonate-User": {"bob"}, "Impersonate-Group": {"system:masters"}},
			allowed: "impersonate-on:user-info:list /pods , impersonate:user-info " + authn + "users bob, impersonate:user-info " + authn + "groups system:masters",
			text:    `groups.authentication.k8s.io "system:masters" is forbidden: User "eve" cannot impersonate:user-info resource "groups" in API group "authentication.k8s.io" at the cluster scope: impersonating the system:masters group is not allowed`},
		{name: "the empty group", header: http.Header{"Impersonate-User": {"bob"}, "Impersonate-Group": {""}},
			allowed: "impersonate-on:user-info:list /pods , impersonate:user-info " + authn + "users bob",
			text:    "impersonating the empty string group is not allowed"},
		{name: "extra without a domain", header: http.Header{"Impersonate-User": {"bob"}, "Impersonate-Extra-K": {"v"}},
			allowed: "impersonate-on:user-info:list /pods , impersonate:user-info " + authn + "users bob, impersonate:user-info " + authn + "userextras/k v",
			text:    "impersonating an invalid key in extra is not allowed: extra.key: Invalid value:"},
		{name: "many groups at once", header: http.Header{"Impersonate-User": {"bob"}, "Impersonate-Group": {"a", "b", "c", "d"}},
			allowed: "impersonate-on:user-info:list /pods , impersonate:user-info " + authn + "users bob, impersonate:user-info " + authn + "groups *",
			want:    &auth.User{Name: "bob", Groups: []string{"a", "b", "c", "d", "system:authenticated"}}},
		{name: "few groups one by one", header: http.Header{"Impersonate-User": {"bob"}, "Impersonate-Group": {"a", "b"}},
			allowed: "impersonate-on:user-info:list /pods , impersonate:user-info " + authn + "users bob, impersonate:user-info " + authn + "groups *",
			text:    `groups.authentication.k8s.io "a" is forbidden`},
		{name: "much extra at once", header: http.Header{"Impersonate-User": {"bob"}, "Impersonate-Extra-Acme.com%2fp": {"a", "b", "c", "d"}},
			allowed: "impersonate-on:user-info:list /pods , impersonate:user-info " + authn + "users bob, impersonate:user-info " + authn + "userextras/* *",
			want:    &auth.User{Name: "bob", Groups: []string{"system:authenticated"}, Extra: map[string][]string{"acme.com/p": {"a", "b", "c", "d"}}}},
		{name: "a service account", header: http.Header{"Impersonate-User": {robot}},
			allowed: "impersonate-on:serviceaccount:list /pods , impersonate:serviceaccount " + authn + "serviceaccounts default/robot",
			want:    &auth.User{Name: robot, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"}}},
		{name: "a service account with groups is for the way of old", header: http.Header{"Impersonate-User": {robot}, "Impersonate-Group": {"a"}},
			allowed: "impersonate-on:serviceaccount:list /pods , impersonate:serviceaccount " + authn + "serviceaccounts default/robot, impersonate:serviceaccount " + authn + "groups a",
			text:    `serviceaccounts "robot" is forbidden: User "eve" cannot impersonate resource "serviceaccounts" in API group "" in the namespace "default"`,
			asked:   "impersonate /serviceaccounts default/robot"},
		{name: "a node", header: http.Header{"Impersonate-User": {"system:node:n1"}},
			allowed: "impersonate-on:arbitrary-node:list /pods , impersonate:arbitrary-node " + authn + "nodes n1",
			want:    &auth.User{Name: "system:node:n1", Groups: []string{"system:nodes", "system:authenticated"}}},
		{name: "a node by the way of old", header: http.Header{"Impersonate-User": {"system:node:n1"}},
			allowed: "impersonate /users system:node:n1",
			want:    &auth.User{Name: "system:node:n1", Groups: []string{"system:authenticated"}}},
		{name: "the node of the sender", sender: agent, header: http.Header{"Impersonate-User": {"system:node:n1"}},
			allowed: "impersonate-on:associated-node:list /pods , impersonate:associated-node " + authn + "nodes *",
			want:    &auth.User{Name: "system:node:n1", Groups: []string{"system:nodes", "system:authenticated"}}},
		{name: "not another's node", sender: agent, header: http.Header{"Impersonate-User": {"system:node:n2"}},
			allowed: "impersonate-on:associated-node:list /pods , impersonate:associated-node " + authn + "nodes *",
			text:    `cannot impersonate-on:arbitrary-node:list resource "pods"`},
		{name: "an authorizer that does not know", header: http.Header{"Impersonate-User": {"bob"}}, err: errors.New("out of order"),
			text: `pods is forbidden: User "eve" cannot impersonate-on:user-info:list resource "pods" in API group "" at the cluster scope: out of order`},
		{name: "no user", header: http.Header{"Impersonate-Uid": {"7"}}, text: "without impersonating a user name", asked: ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sender := tc.sender
			if sender == nil {
				sender = &auth.User{Name: "eve"}
			}
			by := &grants{allowed: strings.Split(tc.allowed, ", "), err: tc.err}
			got, _, err := auth.Impersonate(t.Context(), by, sender, tc.header, func() *auth.Attributes {
				return &auth.Attributes{Verb: "list", ResourceRequest: true, APIVersion: "v1", Resource: "pods"}
			})
			if tc.want == nil {
				if err == nil || got != nil || !strings.Contains(err.Error(), tc.text) {
					t.Errorf("got %v, %v\nwant %s", got, err, tc.text)
				}
			} else if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
				t.Errorf("%v %s", err, diff)
			}
			if asked := strings.Join(by.asked, ", "); tc.asked != "" && asked != tc.asked {
				t.Errorf("asked %q\nwant  %q", asked, tc.asked)
			}
			if tc.sender == agent && tc.want != nil {
				want := map[string][]string{"authentication.kubernetes.io/associated-node-keys": {nodeKey, "b"}}
				if diff := cmp.Diff(want, by.extra); diff != "" {
					t.Errorf("the authorizer sees where the sender is: %s", diff)
				}
			}
		})
	}
}
