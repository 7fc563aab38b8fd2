package oidc

import (
	"errors"
	"reflect"

	"k8s.io/apiserver/pkg/apis/apiserver"
)

// Options describe one OpenID Connect provider. They have the names of kube-apiserver's flags
// --oidc-*. With zero values there is none.
type Options struct {
	// IssuerURL is the URL of the provider, https://... Required.
	IssuerURL string
	// ClientID is the audience that tokens must have. Required.
	ClientID string
	// CAFile is a file in PEM with the authorities of the provider's certificate. It is read again
	// when it changes. Default: the authorities of the system.
	CAFile string
	// UsernameClaim is the claim with the name of the user. Default sub.
	UsernameClaim string
	// UsernamePrefix is put before names; - means no prefix. Default: IssuerURL and #, but none if
	// UsernameClaim is email.
	UsernamePrefix string
	// GroupsClaim is the claim with the groups of the user. Default: users have no groups.
	GroupsClaim string
	// GroupsPrefix is put before groups. Default: none.
	GroupsPrefix string
	// SigningAlgs are the algorithms that tokens may be signed with, of RS256, RS384, RS512, ES256,
	// ES384, ES512, PS256, PS384 and PS512. Default RS256.
	SigningAlgs []string
	// RequiredClaims are claims that tokens must have, with their values. Default: none.
	RequiredClaims map[string]string
}

// IsZero reports whether the options describe no provider.
func (o *Options) IsZero() bool { return reflect.DeepEqual(*o, Options{}) }

// Validate returns an error if a provider is described without IssuerURL or ClientID. The function
// Validate checks their values, in the configuration that Configuration returns.
func (o *Options) Validate() error {
	if !o.IsZero() && (o.IssuerURL == "" || o.ClientID == "") {
		return errors.New("oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set")
	}
	return nil
}

// Algorithms returns SigningAlgs, or the default.
func (o *Options) Algorithms() []string {
	if len(o.SigningAlgs) == 0 {
		return []string{"RS256"}
	}
	return o.SigningAlgs
}

// Configuration returns the equivalent AuthenticationConfiguration of valid options. authorities is
// the content of CAFile, "" without one.
func (o *Options) Configuration(authorities string) *apiserver.AuthenticationConfiguration {
	claim := o.UsernameClaim
	if claim == "" {
		claim = "sub"
	}
	prefix := o.UsernamePrefix
	switch {
	case prefix == "" && claim != "email":
		prefix = o.IssuerURL + "#"
	case prefix == "-":
		prefix = ""
	}
	jwt := apiserver.JWTAuthenticator{
		Issuer: apiserver.Issuer{URL: o.IssuerURL, Audiences: []string{o.ClientID}, CertificateAuthority: authorities},
		ClaimMappings: apiserver.ClaimMappings{
			Username: apiserver.PrefixedClaimOrExpression{Claim: claim, Prefix: &prefix},
		},
	}
	if o.GroupsClaim != "" {
		jwt.ClaimMappings.Groups = apiserver.PrefixedClaimOrExpression{Claim: o.GroupsClaim, Prefix: &o.GroupsPrefix}
	}
	for name, value := range o.RequiredClaims {
		jwt.ClaimValidationRules = append(jwt.ClaimValidationRules, apiserver.ClaimValidationRule{Claim: name, RequiredValue: value})
	}
	return &apiserver.AuthenticationConfiguration{JWT: []apiserver.JWTAuthenticator{jwt}}
}
