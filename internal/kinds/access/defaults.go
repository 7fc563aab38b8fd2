package access

import (
	"github.com/kapok-dev/kapok/internal/kinds/defaults"

	authenticationv1 "k8s.io/api/authentication/v1"
)

// Defaults registers the defaults of this group's types.
func Defaults(f *defaults.Functions) {
	rbacTypes(f)
	defaults.On(f, defaultTokenRequestSpec)
}

func defaultTokenRequestSpec(s *authenticationv1.TokenRequestSpec) {
	defaults.Pointer(&s.ExpirationSeconds, 3600)
}

// defaultTokenRequest sets the lifetime of the token.
func defaultTokenRequest(request *authenticationv1.TokenRequest) {
	defaultTokenRequestSpec(&request.Spec)
}
