package audit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authz"
)

// The policy in docs/audit.md has the effects that the page describes.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "audit.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "\n    apiVersion: audit.k8s.io/v1\n")
	block, _, ok2 := strings.Cut(rest, "\n\n")
	if !ok || !ok2 {
		t.Fatal("there is no policy in it")
	}
	policy := "    apiVersion: audit.k8s.io/v1\n" + block + "\n"
	p, err := loadPolicy(t.Context(), write(t, "policy.yaml", strings.ReplaceAll(policy, "\n    ", "\n")[4:]))
	if err != nil {
		t.Fatal(err)
	}
	object := func(verb, group, resource, sub string) authz.Attributes {
		return authz.Attributes{User: &authn.User{Name: "alice"}, Verb: verb, ResourceRequest: true, APIGroup: group, Resource: resource, Subresource: sub}
	}
	for _, tc := range []struct {
		ask  authz.Attributes
		want string
	}{
		{authz.Attributes{Verb: "get", Path: "/readyz/ping"}, "None"},
		{authz.Attributes{Verb: "get", Path: "/metrics"}, "Metadata"},
		{object("get", "", "secrets", ""), "Metadata"},
		{object("create", "", "serviceaccounts", "token"), "Metadata"},
		{object("create", "authentication.k8s.io", "tokenreviews", ""), "Metadata"},
		{object("create", "rbac.authorization.k8s.io", "roles", ""), "RequestResponse"},
		{object("get", "rbac.authorization.k8s.io", "roles", ""), "Metadata"},
		{object("watch", "apps", "deployments", ""), "Metadata"},
	} {
		rule := p.rule(&tc.ask)
		if string(rule.Level) != tc.want || len(rule.OmitStages) != 1 || !rule.OmitManagedFields {
			t.Errorf("%+v: %+v, want %s", tc.ask, rule, tc.want)
		}
	}
}
