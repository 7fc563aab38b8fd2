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

// Decode reads an AuthenticationConfiguration, in JSON or YAML, and validates it. Its issuers must
// not include those of service account tokens. The error has all invalid fields, in Kubernetes'
// words.
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

// Validate returns an error with all invalid fields of a configuration.
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
