package authz_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authz"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// grants is an authorizer that allows the listed permissions, as "verb group/resource[/subresource]
// [namespace/]name" or "verb path", and records the requested ones.
type grants struct {
	allowed []string
	asked   []string
	extra   map[string][]string // of the last user
	err     error
}

func (g *grants) Authorize(_ context.Context, a *authz.Attributes) (authz.Decision, string, error) {
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
		return authz.Allow, "", nil
	}
	return authz.NoOpinion, "", g.err
}

// TestConstrainedImpersonation checks the permissions that each mode requires (KEP-5284).
func TestConstrainedImpersonation(t *testing.T) {
	const (
		reviews = "authentication.k8s.io/"
		robot   = "system:serviceaccount:default:robot"
		nodeKey = "authentication.kubernetes.io/node-name"
	)
	agent := &authn.User{Name: "system:serviceaccount:kube-system:agent", Extra: map[string][]string{nodeKey: {"n1"}, "b": {"x"}}}
	for _, tc := range []struct {
		name    string
		sender  *authn.User
		header  http.Header
		allowed string // separated by ", "
		err     error  // returned by the authorizer
		want    *authn.User
		text    string // part of the error
		asked   string // requested permissions, unless empty, separated by ", "
	}{
		{name: "a user on a request", header: http.Header{"Impersonate-User": {"bob"}},
			allowed: "impersonate-on:user-info:list /pods , impersonate:user-info " + reviews + "users bob",
			want:    &authn.User{Name: "bob", Groups: []string{"system:authenticated"}}},
		{name: "a user, but not on this request", header: http.Header{"Impersonate-User": {"bob"}},
			allowed: "impersonate:user-info " + reviews + "users bob",
			text:    `pods is forbidden: User "eve" cannot impersonate-on:user-info:list resource "pods" in API group "" at the cluster scope`,
			asked:   "impersonate-on:user-info:list /pods , impersonate /users bob"},
		{name: "on this request, but not the user", header: http.Header{"Impersonate-User": {"bob"}},
			allowed: "impersonate-on:user-info:list /pods ",
			text:    `users.authentication.k8s.io "bob" is forbidden: User "eve" cannot impersonate:user-info resource "users" in API group "authentication.k8s.io" at the cluster scope`},
		{name: "legacy impersonation", header: http.Header{"Impersonate-User": {"bob"}, "Impersonate-Group": {"a"}, "Impersonate-Uid": {"7"}, "Impersonate-Extra-K": {"v"}},
			allowed: "impersonate /users bob, impersonate /groups a, impersonate " + reviews + "uids 7, impersonate " + reviews + "userextras/k v",
			want:    &authn.User{Name: "bob", UID: "7", Groups: []string{"a", "system:authenticated"}, Extra: map[string][]string{"k": {"v"}}}},
		{name: "masters by legacy impersonation only", header: http.Header{"Impersonate-User": {"bob"}, "Impersonate-Group": {"system:masters"}},
			allowed: "impersonate-on:user-info:list /pods , impersonate:user-info " + reviews + "users bob, impersonate:user-info " + reviews + "groups system:masters",
			text:    `groups.authentication.k8s.io "system:masters" is forbidden: User "eve" cannot impersonate:user-info resource "groups" in API group "authentication.k8s.io" at the cluster scope: impersonating the system:masters group is not allowed`},
		{name: "the empty group", header: http.Header{"Impersonate-User": {"bob"}, "Impersonate-Group": {""}},
			allowed: "impersonate-on:user-info:list /pods , impersonate:user-info " + reviews + "users bob",
			text:    "impersonating the empty string group is not allowed"},
		{name: "extra without a domain", header: http.Header{"Impersonate-User": {"bob"}, "Impersonate-Extra-K": {"v"}},
			allowed: "impersonate-on:user-info:list /pods , impersonate:user-info " + reviews + "users bob, impersonate:user-info " + reviews + "userextras/k v",
			text:    "impersonating an invalid key in extra is not allowed: extra.key: Invalid value:"},
		{name: "many groups at once", header: http.Header{"Impersonate-User": {"bob"}, "Impersonate-Group": {"a", "b", "c", "d"}},
			allowed: "impersonate-on:user-info:list /pods , impersonate:user-info " + reviews + "users bob, impersonate:user-info " + reviews + "groups *",
			want:    &authn.User{Name: "bob", Groups: []string{"a", "b", "c", "d", "system:authenticated"}}},
		{name: "few groups one by one", header: http.Header{"Impersonate-User": {"bob"}, "Impersonate-Group": {"a", "b"}},
			allowed: "impersonate-on:user-info:list /pods , impersonate:user-info " + reviews + "users bob, impersonate:user-info " + reviews + "groups *",
			text:    `groups.authentication.k8s.io "a" is forbidden`},
		{name: "much extra at once", header: http.Header{"Impersonate-User": {"bob"}, "Impersonate-Extra-Acme.com%2fp": {"a", "b", "c", "d"}},
			allowed: "impersonate-on:user-info:list /pods , impersonate:user-info " + reviews + "users bob, impersonate:user-info " + reviews + "userextras/* *",
			want:    &authn.User{Name: "bob", Groups: []string{"system:authenticated"}, Extra: map[string][]string{"acme.com/p": {"a", "b", "c", "d"}}}},
		{name: "a service account", header: http.Header{"Impersonate-User": {robot}},
			allowed: "impersonate-on:serviceaccount:list /pods , impersonate:serviceaccount " + reviews + "serviceaccounts default/robot",
			want:    &authn.User{Name: robot, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"}}},
		{name: "a service account with groups needs legacy impersonation", header: http.Header{"Impersonate-User": {robot}, "Impersonate-Group": {"a"}},
			allowed: "impersonate-on:serviceaccount:list /pods , impersonate:serviceaccount " + reviews + "serviceaccounts default/robot, impersonate:serviceaccount " + reviews + "groups a",
			text:    `serviceaccounts "robot" is forbidden: User "eve" cannot impersonate resource "serviceaccounts" in API group "" in the namespace "default"`,
			asked:   "impersonate /serviceaccounts default/robot"},
		{name: "a node", header: http.Header{"Impersonate-User": {"system:node:n1"}},
			allowed: "impersonate-on:arbitrary-node:list /pods , impersonate:arbitrary-node " + reviews + "nodes n1",
			want:    &authn.User{Name: "system:node:n1", Groups: []string{"system:nodes", "system:authenticated"}}},
		{name: "a node by legacy impersonation", header: http.Header{"Impersonate-User": {"system:node:n1"}},
			allowed: "impersonate /users system:node:n1",
			want:    &authn.User{Name: "system:node:n1", Groups: []string{"system:authenticated"}}},
		{name: "the node of the sender", sender: agent, header: http.Header{"Impersonate-User": {"system:node:n1"}},
			allowed: "impersonate-on:associated-node:list /pods , impersonate:associated-node " + reviews + "nodes *",
			want:    &authn.User{Name: "system:node:n1", Groups: []string{"system:nodes", "system:authenticated"}}},
		{name: "not another's node", sender: agent, header: http.Header{"Impersonate-User": {"system:node:n2"}},
			allowed: "impersonate-on:associated-node:list /pods , impersonate:associated-node " + reviews + "nodes *",
			text:    `cannot impersonate-on:arbitrary-node:list resource "pods"`},
		{name: "an authorizer that does not know", header: http.Header{"Impersonate-User": {"bob"}}, err: errors.New("out of order"),
			text: `pods is forbidden: User "eve" cannot impersonate-on:user-info:list resource "pods" in API group "" at the cluster scope: out of order`},
		{name: "no user", header: http.Header{"Impersonate-Uid": {"7"}}, text: "without impersonating a user name", asked: ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sender := tc.sender
			if sender == nil {
				sender = &authn.User{Name: "eve"}
			}
			by := &grants{allowed: strings.Split(tc.allowed, ", "), err: tc.err}
			got, _, err := authz.Impersonate(t.Context(), by, sender, tc.header, true, func() *authz.Attributes {
				return &authz.Attributes{Verb: "list", ResourceRequest: true, APIVersion: "v1", Resource: "pods"}
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
					t.Errorf("the authorizer gets the properties of the sender's pod: %s", diff)
				}
			}
		})
	}
}

// TestPlainImpersonation checks that without constrained modes only the original one permits an
// impersonation.
func TestPlainImpersonation(t *testing.T) {
	for allowed, want := range map[string]string{
		"impersonate-on:user-info:list /pods , impersonate:user-info authentication.k8s.io/users bob": `users "bob" is forbidden: User "eve" cannot impersonate resource "users"`,
		"impersonate /users bob": "",
	} {
		by := &grants{allowed: strings.Split(allowed, ", ")}
		u, constraint, err := authz.Impersonate(t.Context(), by, &authn.User{Name: "eve"}, http.Header{"Impersonate-User": {"bob"}}, false, func() *authz.Attributes {
			return &authz.Attributes{Verb: "list", ResourceRequest: true, APIVersion: "v1", Resource: "pods"}
		})
		switch {
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, %v, want %s", allowed, u, err, want)
		case want == "" && (err != nil || u.Name != "bob" || constraint != ""):
			t.Errorf("%s: %v, %q, %v", allowed, u, constraint, err)
		}
		if asked := strings.Join(by.asked, ", "); asked != "impersonate /users bob" {
			t.Errorf("asked %q", asked)
		}
	}
}

func TestImpersonation(t *testing.T) {
	const token = "secret"
	sa := "system:serviceaccount:default:robot"
	for _, tc := range []struct {
		name   string
		from   string // token
		header map[string][]string
		want   *authn.User
		code   int32
		reason metav1.StatusReason
		text   string
	}{
		{name: "user", from: token, header: map[string][]string{"Impersonate-User": {"bob"}},
			want: &authn.User{Name: "bob", Groups: []string{"system:authenticated"}}},
		{name: "groups", from: token, header: map[string][]string{"Impersonate-User": {"bob"}, "Impersonate-Group": {"a", "b"}},
			want: &authn.User{Name: "bob", Groups: []string{"a", "b", "system:authenticated"}}},
		{name: "unauthenticated group", from: token, header: map[string][]string{"Impersonate-User": {"bob"}, "Impersonate-Group": {"system:unauthenticated"}},
			want: &authn.User{Name: "bob", Groups: []string{"system:unauthenticated"}}},
		{name: "anonymous", from: token, header: map[string][]string{"Impersonate-User": {"system:anonymous"}},
			want: &authn.User{Name: "system:anonymous", Groups: []string{"system:unauthenticated"}}},
		{name: "service account", from: token, header: map[string][]string{"Impersonate-User": {sa}},
			want: &authn.User{Name: sa, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"}}},
		{name: "uid and extra", from: token, header: map[string][]string{
			"Impersonate-User": {"bob"}, "Impersonate-Uid": {"7"}, "Impersonate-Extra-Acme.com%2fproject": {"x", "y"}},
			want: &authn.User{Name: "bob", UID: "7", Groups: []string{"system:authenticated"}, Extra: map[string][]string{"acme.com/project": {"x", "y"}}}},
		{name: "groups without a user", from: token, header: map[string][]string{"Impersonate-Group": {"system:masters"}},
			code: 400, reason: metav1.StatusReasonBadRequest, text: "without impersonating a user name"},
		{name: "user, by an anonymous client", header: map[string][]string{"Impersonate-User": {"bob"}},
			code: 403, reason: metav1.StatusReasonForbidden,
			text: `forbidden: User "system:anonymous" cannot impersonate-on:user-info:get path "/api"`},
		{name: "service account, by an anonymous client", header: map[string][]string{"Impersonate-User": {sa}},
			code: 403, reason: metav1.StatusReasonForbidden,
			text: `forbidden: User "system:anonymous" cannot impersonate-on:serviceaccount:get path "/api"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := httptest.NewRequest("GET", "/api", nil)
			if tc.from != "" {
				r.Header.Set("Authorization", "Bearer "+tc.from)
			}
			for k, v := range tc.header {
				r.Header[k] = v
			}
			sender, err := authn.NewAuthenticator(nil, authn.AdminToken(token)).Identify(r)
			if err != nil {
				t.Fatal(err)
			}
			got, _, err := authz.Impersonate(t.Context(), authz.Basic{}, sender, r.Header, true, func() *authz.Attributes {
				return &authz.Attributes{Verb: "get", Path: "/api"}
			})
			if tc.want == nil {
				wantStatus(t, err, tc.code, tc.reason, tc.text)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			for k := range r.Header {
				if strings.HasPrefix(k, "Impersonate-") {
					t.Errorf("later steps see header %s", k)
				}
			}
		})
	}
}

// wantStatus checks that an error is a status with a message that contains text.
func wantStatus(t *testing.T, err error, code int32, reason metav1.StatusReason, text string) {
	t.Helper()
	status, ok := err.(apierrors.APIStatus)
	if !ok {
		t.Fatalf("got %v, want a status", err)
	}
	s := status.Status()
	if s.Code != code || s.Reason != reason || !strings.Contains(s.Message, text) {
		t.Errorf("got %d %s %q\nwant %d %s %q", s.Code, s.Reason, s.Message, code, reason, text)
	}
}
