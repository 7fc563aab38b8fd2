package access

import (
	"github.com/kapok-dev/kapok/convert"
	"github.com/kapok-dev/kapok/internal/kinds/kind"

	authenticationv1 "k8s.io/api/authentication/v1"
	authenticationv1alpha1 "k8s.io/api/authentication/v1alpha1"
	authenticationv1beta1 "k8s.io/api/authentication/v1beta1"
	authorizationv1 "k8s.io/api/authorization/v1"
	authorizationv1beta1 "k8s.io/api/authorization/v1beta1"
)

// ReviewConversions are the conversions of reviews of access and identity.
func ReviewConversions() []convert.Rule {
	return []convert.Rule{
		kind.Same[authenticationv1.TokenReview, authenticationv1.TokenReview](),
		kind.Same[authenticationv1.TokenReview, authenticationv1beta1.TokenReview](),
		kind.Same[authenticationv1.SelfSubjectReview, authenticationv1.SelfSubjectReview](),
		kind.Same[authenticationv1.SelfSubjectReview, authenticationv1beta1.SelfSubjectReview](),
		kind.Same[authenticationv1.SelfSubjectReview, authenticationv1alpha1.SelfSubjectReview](),
		kind.Same[authorizationv1.SubjectAccessReview, authorizationv1.SubjectAccessReview](),
		kind.Same[authorizationv1.SubjectAccessReview, authorizationv1beta1.SubjectAccessReview](),
		kind.Same[authorizationv1.LocalSubjectAccessReview, authorizationv1.LocalSubjectAccessReview](),
		kind.Same[authorizationv1.LocalSubjectAccessReview, authorizationv1beta1.LocalSubjectAccessReview](),
		kind.Same[authorizationv1.SelfSubjectAccessReview, authorizationv1.SelfSubjectAccessReview](),
		kind.Same[authorizationv1.SelfSubjectAccessReview, authorizationv1beta1.SelfSubjectAccessReview](),
		kind.Same[authorizationv1.SelfSubjectRulesReview, authorizationv1.SelfSubjectRulesReview](),
		kind.Same[authorizationv1.SelfSubjectRulesReview, authorizationv1beta1.SelfSubjectRulesReview](),
	}
}
