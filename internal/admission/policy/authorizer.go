package policy

import (
	"context"

	"github.com/kapok-dev/kapok/internal/auth"

	"k8s.io/apiserver/pkg/authentication/user"
	kauthorizer "k8s.io/apiserver/pkg/authorization/authorizer"
)

// authorizer asks ours on behalf of Kubernetes' CEL library. Selectors do not count: who may see what a selector selects only
// may not do what is asked.
type authorizer struct{ auth.Authorizer }

// Authorize implements authorizer.UnconditionalAuthorizer.
func (z authorizer) Authorize(ctx context.Context, a kauthorizer.Attributes) (kauthorizer.Decision, string, error) {
	if z.Authorizer == nil {
		return kauthorizer.DecisionNoOpinion, "", nil
	}
	decision, reason, err := z.Authorizer.Authorize(ctx, &auth.Attributes{
		User:            ours(a.GetUser()),
		Verb:            a.GetVerb(),
		Path:            a.GetPath(),
		ResourceRequest: a.IsResourceRequest(),
		APIGroup:        a.GetAPIGroup(),
		APIVersion:      a.GetAPIVersion(),
		Resource:        a.GetResource(),
		Subresource:     a.GetSubresource(),
		Namespace:       a.GetNamespace(),
		Name:            a.GetName(),
	})
	switch decision {
	case auth.Allow:
		return kauthorizer.DecisionAllow, reason, err
	case auth.Deny:
		return kauthorizer.DecisionDeny, reason, err
	}
	return kauthorizer.DecisionNoOpinion, reason, err
}

// ours is a user of the library as ours, nil if there is none.
func ours(u user.Info) *auth.User {
	switch u := u.(type) {
	case nil:
		return nil
	case *auth.User:
		return u
	}
	return &auth.User{Name: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(), Extra: u.GetExtra()}
}
