package users_test

import (
	"context"
	"testing"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authz"
	"github.com/kapok-dev/kapok/internal/kinds"
	"github.com/kapok-dev/kapok/internal/kinds/users"
	"github.com/kapok-dev/kapok/internal/resource"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// refusing is an authorizer that denies everything and records the last attributes.
type refusing struct{ asked *authz.Attributes }

func (z *refusing) Authorize(_ context.Context, a *authz.Attributes) (authz.Decision, string, error) {
	z.asked = a
	return authz.Deny, "", nil
}

// TestGiven checks that each built-in kind finds the users passed to its definition, and never
// falls back to an authorizer that allows everything.
func TestGiven(t *testing.T) {
	by := &refusing{}
	definitions := kinds.Give(kinds.WithRetired(), &users.Users{Authorizer: by})
	if len(definitions) == 0 {
		t.Fatal("there are no definitions")
	}
	registry := resource.NewRegistry(definitions...).Load()
	for _, d := range definitions {
		r := &resource.Request{
			Definition: registry.Resource(d.GroupResource()), Version: d.Versions[0], Namespace: "ns", Name: "a", User: &authn.User{Name: "bob"},
		}
		by.asked = nil
		if err := users.Of(r).PermitCreate(t.Context(), r); !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v, want 403 Forbidden", d.GroupResource(), err)
		}
		want := authz.Attributes{
			Verb: "create", ResourceRequest: true, APIGroup: d.GroupVersion(r.Version).Group, APIVersion: r.Version.Name,
			Resource: d.Plural, Namespace: "ns", Name: "a",
		}
		if a := by.asked; a == nil || a.User == nil || a.User.Name != "bob" || a.Verb != want.Verb || !a.ResourceRequest || a.APIGroup != want.APIGroup ||
			a.APIVersion != want.APIVersion || a.Resource != want.Resource || a.Namespace != want.Namespace || a.Name != want.Name {
			t.Errorf("%s: asked %+v, want %+v", d.GroupResource(), a, want)
		}
		r.User = nil // the server itself
		if err := users.Of(r).PermitCreate(t.Context(), r); err != nil {
			t.Errorf("%s: the server itself: %v", d.GroupResource(), err)
		}
	}
}
