package policy

import (
	"context"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authz"

	kauthorizer "k8s.io/apiserver/pkg/authorization/authorizer"
)

// authorizer adapts an authorizer to Kubernetes' CEL library. It ignores field and label selectors:
// a user who may read only what a selector selects is denied.
type authorizer struct{ authz.Authorizer }

// Authorize implements authorizer.UnconditionalAuthorizer.
func (z authorizer) Authorize(ctx context.Context, a kauthorizer.Attributes) (kauthorizer.Decision, string, error) {
	if z.Authorizer == nil {
		return kauthorizer.DecisionNoOpinion, "", nil
	}
	decision, reason, err := z.Authorizer.Authorize(ctx, &authz.Attributes{
		User:            authn.Of(a.GetUser()),
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
	case authz.Allow:
		return kauthorizer.DecisionAllow, reason, err
	case authz.Deny:
		return kauthorizer.DecisionDeny, reason, err
	}
	return kauthorizer.DecisionNoOpinion, reason, err
}
