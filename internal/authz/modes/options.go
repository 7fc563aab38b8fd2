package modes

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	api "k8s.io/apiserver/pkg/apis/apiserver"
)

// Options select the authorizers. Zero values mean those of nodes, and of roles and bindings.
// Members of system:masters are never denied, whatever is configured.
type Options struct {
	// Modes are the authorizers, which are called in this order until one allows or denies a
	// request: Node, RBAC, Webhook, AlwaysAllow. Default: Node, RBAC.
	Modes []string
	// ConfigFile is a file with Kubernetes' AuthorizationConfiguration, instead of Modes and
	// WebhookConfigFile. It is read again when it changes; an invalid one changes nothing.
	ConfigFile string

	// WebhookConfigFile is a kubeconfig with the address of the webhook. It is required for the
	// mode Webhook, and an error without it.
	WebhookConfigFile string
	// WebhookVersion is the version of the SubjectAccessReviews that are sent to the webhook: v1 or
	// v1beta1. Default v1beta1, as in Kubernetes.
	WebhookVersion string
	// WebhookAuthorizedTTL is the time for which a decision of the webhook to allow is cached.
	// Default 5 minutes.
	WebhookAuthorizedTTL time.Duration
	// WebhookUnauthorizedTTL is the time for which any other decision of the webhook is cached.
	// Default 30 seconds.
	WebhookUnauthorizedTTL time.Duration
}

// Validate returns an error if options contradict each other. It does not read files: Open returns
// errors about their content, about names of modes and about versions.
func (o *Options) Validate() error {
	if o.ConfigFile == "" {
		_, err := o.config()
		return err
	}
	if len(o.Modes) > 0 || o.WebhookConfigFile != "" {
		return errors.New("Options.Access.ConfigFile is set together with Modes or WebhookConfigFile: set only ConfigFile, or only the others")
	}
	return nil
}

// config returns the configuration that is equivalent to Modes.
func (o *Options) config() (*api.AuthorizationConfiguration, error) {
	modes := o.Modes
	if len(modes) == 0 {
		modes = []string{Node, RBAC}
	}
	config := &api.AuthorizationConfiguration{}
	for i, mode := range modes {
		if slices.Contains(modes[:i], mode) {
			return nil, fmt.Errorf("Options.Access.Modes has %q twice: remove one of them", mode)
		}
		a := api.AuthorizerConfiguration{Type: api.AuthorizerType(mode), Name: strings.ToLower(mode)}
		if mode == Webhook {
			if o.WebhookConfigFile == "" {
				return nil, errors.New("Options.Access.Modes has Webhook but WebhookConfigFile is not set: set it to a kubeconfig with the address of the webhook")
			}
			a.Name, a.Webhook = "default", o.webhook()
		}
		config.Authorizers = append(config.Authorizers, a)
	}
	if o.WebhookConfigFile != "" && !slices.Contains(modes, Webhook) {
		return nil, fmt.Errorf("Options.Access.WebhookConfigFile is %q but Modes has no Webhook: add Webhook to Modes", o.WebhookConfigFile)
	}
	return config, nil
}

func (o *Options) webhook() *api.WebhookConfiguration {
	return &api.WebhookConfiguration{
		AuthorizedTTL:              metav1.Duration{Duration: cmp.Or(o.WebhookAuthorizedTTL, 5*time.Minute)},
		CacheAuthorizedRequests:    true,
		UnauthorizedTTL:            metav1.Duration{Duration: cmp.Or(o.WebhookUnauthorizedTTL, 30*time.Second)},
		CacheUnauthorizedRequests:  true,
		Timeout:                    metav1.Duration{Duration: 30 * time.Second},
		FailurePolicy:              api.FailurePolicyNoOpinion,
		SubjectAccessReviewVersion: cmp.Or(o.WebhookVersion, "v1beta1"),
		ConnectionInfo:             api.WebhookConnectionInfo{Type: api.AuthorizationWebhookConnectionInfoTypeKubeConfigFile, KubeConfigFile: &o.WebhookConfigFile},
	}
}
