// Package modes is who decides about access, as the server is told: by modes, as kube-apiserver's --authorization-mode, or
// by a file with Kubernetes' AuthorizationConfiguration, which is read again when it changes.
//
// There are RBAC, Webhook and AlwaysAllow; all others are refused. A [Chain] asks those that are configured in their order,
// and the first that has an opinion decides. What is wrong with a configuration is said in the words of k8s.io/apiserver,
// whose types and validation these are; conditions are compiled and evaluated by it, too.
//
// A file that is missing or wrong when it is read again is logged once, and changes nothing. [Chain.Watch] runs in a
// goroutine of the caller's; the package starts none.
package modes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kapok-dev/kapok/internal/auth"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	api "k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/load"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
)

// The modes.
const (
	RBAC        = "RBAC"
	Webhook     = "Webhook"
	AlwaysAllow = "AlwaysAllow"
)

// Settings say who decides. They are a file, or modes.
type Settings struct {
	// Modes are who is asked, in this order. Default: RBAC.
	Modes []string
	// File is an AuthorizationConfiguration.
	File string

	// WebhookFile is a kubeconfig file that says where the webhook of the mode Webhook is, WebhookVersion the version of the
	// reviews it takes, v1 or v1beta1 (the default, as for Kubernetes), and the TTLs how long an answer counts; 0 means
	// 5 minutes and 30 seconds.
	WebhookFile                             string
	WebhookVersion                          string
	WebhookAuthorizedTTL, WebhookRefusedTTL time.Duration
}

// A Chain is who decides. Make one with [Open].
type Chain struct {
	file    string
	roles   auth.Authorizer
	log     *slog.Logger
	current atomic.Pointer[links]
	// opened are all webhooks so far. They are those of who loads: Open, then Watch, then Close.
	opened []*webhook
}

// links are the Authorizers of one configuration.
type links struct {
	auth.Union
	data []byte // of the file
}

// Open returns the chain that the settings ask for. roles decides for RBAC.
func Open(s Settings, roles auth.Authorizer, log *slog.Logger) (*Chain, error) {
	c := &Chain{file: s.File, roles: roles, log: log}
	if s.File == "" {
		config, err := s.config()
		if err != nil {
			return nil, err
		}
		l, err := c.build(config)
		if err != nil {
			return nil, err
		}
		c.current.Store(l)
		return c, nil
	}
	if len(s.Modes) > 0 || s.WebhookFile != "" {
		return nil, errors.New("who decides about access is said twice: in a file, and by modes")
	}
	_, err := c.load()
	return c, err
}

// config is the configuration that stands for modes.
func (s *Settings) config() (*api.AuthorizationConfiguration, error) {
	modes := s.Modes
	if len(modes) == 0 {
		modes = []string{RBAC}
	}
	config := &api.AuthorizationConfiguration{}
	for i, mode := range modes {
		if slices.Contains(modes[:i], mode) {
			return nil, fmt.Errorf("authorization mode %q is there twice", mode)
		}
		a := api.AuthorizerConfiguration{Type: api.AuthorizerType(mode), Name: strings.ToLower(mode)}
		if mode == Webhook {
			if s.WebhookFile == "" {
				return nil, errors.New("authorization mode Webhook needs a kubeconfig file that says where it is")
			}
			a.Name, a.Webhook = "default", s.webhook()
		}
		config.Authorizers = append(config.Authorizers, a)
	}
	if s.WebhookFile != "" && !slices.Contains(modes, Webhook) {
		return nil, errors.New("there is a kubeconfig file for a webhook, but the authorization mode Webhook is not on")
	}
	return config, nil
}

func (s *Settings) webhook() *api.WebhookConfiguration {
	version := s.WebhookVersion
	if version == "" {
		version = "v1beta1"
	}
	orElse := func(d, other time.Duration) metav1.Duration {
		if d == 0 {
			d = other
		}
		return metav1.Duration{Duration: d}
	}
	return &api.WebhookConfiguration{
		AuthorizedTTL: orElse(s.WebhookAuthorizedTTL, 5*time.Minute), CacheAuthorizedRequests: true,
		UnauthorizedTTL: orElse(s.WebhookRefusedTTL, 30*time.Second), CacheUnauthorizedRequests: true,
		Timeout:                    metav1.Duration{Duration: 30 * time.Second},
		FailurePolicy:              api.FailurePolicyNoOpinion,
		SubjectAccessReviewVersion: version,
		ConnectionInfo:             api.WebhookConnectionInfo{Type: api.AuthorizationWebhookConnectionInfoTypeKubeConfigFile, KubeConfigFile: &s.WebhookFile},
	}
}

// build makes the Authorizers of a configuration.
func (c *Chain) build(config *api.AuthorizationConfiguration) (*links, error) {
	for _, a := range config.Authorizers {
		switch string(a.Type) {
		case "Node", "ABAC", "AlwaysDeny":
			return nil, fmt.Errorf("authorization mode %q is not supported: there are RBAC, Webhook and AlwaysAllow", a.Type)
		}
	}
	var compiler authorizationcel.Compiler
	if slices.ContainsFunc(config.Authorizers, func(a api.AuthorizerConfiguration) bool { return a.Webhook != nil }) {
		compiler = authorizationcel.NewDefaultCompiler()
	}
	problems := validation.ValidateAuthorizationConfiguration(compiler, nil, config, sets.New(RBAC, Webhook, AlwaysAllow), sets.New(Webhook))
	if len(problems) > 0 {
		return nil, problems.ToAggregate()
	}
	l := &links{}
	for _, a := range config.Authorizers {
		switch string(a.Type) {
		case RBAC:
			l.Union = append(l.Union, c.roles)
		case AlwaysAllow:
			l.Union = append(l.Union, anybody{})
		case Webhook:
			w, err := newWebhook(a.Name, a.Webhook, compiler)
			if err != nil {
				return nil, fmt.Errorf("authorizer %s: %w", a.Name, err)
			}
			l.Union = append(l.Union, w)
			c.opened = append(c.opened, w)
		}
	}
	return l, nil
}

// load puts the file in force, if it is another than the one that is.
func (c *Chain) load() (changed bool, err error) {
	data, err := os.ReadFile(c.file)
	if err != nil {
		return false, fmt.Errorf("authorization configuration: %w", err)
	}
	if now := c.current.Load(); now != nil && bytes.Equal(now.data, data) {
		return false, nil
	}
	if len(data) == 0 {
		return false, fmt.Errorf("authorization configuration: %s is empty", c.file)
	}
	config, err := load.LoadFromData(data)
	if err != nil {
		return false, fmt.Errorf("authorization configuration %s: %w", c.file, err)
	}
	l, err := c.build(config)
	if err != nil {
		return false, fmt.Errorf("authorization configuration %s: %w", c.file, err)
	}
	l.data = data
	c.current.Store(l)
	return true, nil
}

// every is how often Watch looks at the file.
const every = 10 * time.Second

// Watch loads the file anew when it changes, until the context ends. Without a file it returns at once.
func (c *Chain) Watch(ctx context.Context) {
	if c.file == "" {
		return
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	complaint := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		changed, err := c.load()
		switch {
		case err == nil:
			complaint = ""
			if changed {
				c.log.Info("authorization configuration loaded", "file", c.file)
			}
		case err.Error() != complaint:
			complaint = err.Error()
			c.log.Error("authorization configuration not loaded; the one before stays in force", "file", c.file, "err", err)
		}
	}
}

// Close ends idle connections to webhooks. Watch has ended by then, and nobody asks any more.
func (c *Chain) Close() {
	for _, w := range c.opened {
		w.transport.CloseIdleConnections()
	}
}

// Authorize implements auth.Authorizer.
func (c *Chain) Authorize(ctx context.Context, a *auth.Attributes) (auth.Decision, string, error) {
	return c.current.Load().Authorize(ctx, a)
}

// RulesFor implements auth.RuleResolver.
func (c *Chain) RulesFor(ctx context.Context, u *auth.User, namespace string) ([]rbacv1.PolicyRule, bool, error) {
	return c.current.Load().RulesFor(ctx, u, namespace)
}

// anybody lets everybody do everything who is known. Strangers are none of them: with this mode, Kubernetes lets in
// nobody who does not say who he is.
type anybody struct{}

func (anybody) AuthorizerName() string { return "alwaysallow" }

func (anybody) Authorize(_ context.Context, a *auth.Attributes) (auth.Decision, string, error) {
	if a.User == nil || a.User.Name == auth.Anonymous || a.User.In(auth.Unauthenticated) {
		return auth.NoOpinion, "", nil
	}
	return auth.Allow, "", nil
}

func (anybody) RulesFor(_ context.Context, u *auth.User, _ string) ([]rbacv1.PolicyRule, bool, error) {
	if u.Name == auth.Anonymous || u.In(auth.Unauthenticated) {
		return nil, false, nil
	}
	all := []string{"*"}
	return []rbacv1.PolicyRule{{Verbs: all, APIGroups: all, Resources: all}, {Verbs: all, NonResourceURLs: all}}, false, nil
}
