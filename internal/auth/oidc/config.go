package oidc

import (
	"errors"
	"fmt"
	"sync"

	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/apiserver"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	apiserverv1alpha1 "k8s.io/apiserver/pkg/apis/apiserver/v1alpha1"
	apiserverv1beta1 "k8s.io/apiserver/pkg/apis/apiserver/v1beta1"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	authenticationcel "k8s.io/apiserver/pkg/authentication/cel"
)

// Decode reads an AuthenticationConfiguration, in JSON or YAML, and validates it. Its issuers must not be those of tokens
// of service accounts. The error says everything that is wrong, in Kubernetes' words.
func Decode(data []byte, serviceAccountIssuers []string) (*apiserver.AuthenticationConfiguration, error) {
	if len(data) == 0 {
		return nil, errors.New("empty config data")
	}
	codecs, err := codecsOnce()
	if err != nil {
		return nil, err
	}
	decoded, err := kruntime.Decode(codecs.UniversalDecoder(), data)
	if err != nil {
		return nil, err
	}
	config, ok := decoded.(*apiserver.AuthenticationConfiguration)
	if !ok {
		return nil, fmt.Errorf("expected AuthenticationConfiguration, got %T", decoded)
	}
	return config, Validate(config, serviceAccountIssuers)
}

// Validate says what is wrong with a configuration.
func Validate(config *apiserver.AuthenticationConfiguration, serviceAccountIssuers []string) error {
	problems := validation.ValidateAuthenticationConfiguration(authenticationcel.NewDefaultCompiler(), config, serviceAccountIssuers)
	for i, jwt := range config.JWT {
		if jwt.Issuer.EgressSelectorType != "" {
			at := field.NewPath("jwt").Index(i).Child("issuer", "egressSelectorType")
			problems = append(problems, field.Forbidden(at, "this server has no egress selectors: requests go out directly"))
		}
	}
	if err := problems.ToAggregate(); err != nil {
		return fmt.Errorf("invalid authentication configuration: %w", err)
	}
	return nil
}

var codecsOnce = sync.OnceValues(func() (serializer.CodecFactory, error) {
	scheme := kruntime.NewScheme()
	err := errors.Join(
		apiserver.AddToScheme(scheme), apiserverv1.AddToScheme(scheme),
		apiserverv1beta1.AddToScheme(scheme), apiserverv1alpha1.AddToScheme(scheme),
	)
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict), err
})

// Flags are kube-apiserver's --oidc-... flags: one issuer.
type Flags struct {
	IssuerURL      string // https
	ClientID       string // the audience
	CertificatePEM string // authorities of the issuer's certificate; "" for those of the system
	UsernameClaim  string // default sub
	// UsernamePrefix is put before names. Default: the issuer's URL and #, and nothing where the claim is email; - is nothing.
	UsernamePrefix string
	GroupsClaim    string // default: no groups
	GroupsPrefix   string
	SigningAlgs    []string // default RS256
	RequiredClaims map[string]string
}

// Configuration is what the flags say in the form of a file.
func (f *Flags) Configuration() (*apiserver.AuthenticationConfiguration, error) {
	if f.IssuerURL == "" || f.ClientID == "" {
		return nil, errors.New("oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set")
	}
	claim := f.UsernameClaim
	if claim == "" {
		claim = "sub"
	}
	prefix := f.UsernamePrefix
	switch {
	case prefix == "" && claim != "email":
		prefix = f.IssuerURL + "#"
	case prefix == "-":
		prefix = ""
	}
	jwt := apiserver.JWTAuthenticator{
		Issuer: apiserver.Issuer{URL: f.IssuerURL, Audiences: []string{f.ClientID}, CertificateAuthority: f.CertificatePEM},
		ClaimMappings: apiserver.ClaimMappings{
			Username: apiserver.PrefixedClaimOrExpression{Claim: claim, Prefix: &prefix},
		},
	}
	if f.GroupsClaim != "" {
		jwt.ClaimMappings.Groups = apiserver.PrefixedClaimOrExpression{Claim: f.GroupsClaim, Prefix: &f.GroupsPrefix}
	}
	for name, value := range f.RequiredClaims {
		jwt.ClaimValidationRules = append(jwt.ClaimValidationRules, apiserver.ClaimValidationRule{Claim: name, RequiredValue: value})
	}
	return &apiserver.AuthenticationConfiguration{JWT: []apiserver.JWTAuthenticator{jwt}}, nil
}
