// Package modes authorizes requests by a list of modes, like kube-apiserver's --authorization-mode,
// or by a file with Kubernetes' AuthorizationConfiguration, which is read again when it changes.
//
// The modes are Node, RBAC, Webhook and AlwaysAllow; all others are rejected. A [Chain] calls the
// configured authorizers in order, and the first one with an opinion decides. Types, validation and
// error messages of configurations are those of k8s.io/apiserver, which also compiles and evaluates
// conditions.
//
// If a file is missing or invalid when it is read again, the error is logged once, and the
// configuration does not change. [Chain.Watch] runs in a goroutine of the caller; the package
// starts none.
package modes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authz"
	"github.com/kapok-dev/kapok/internal/reload"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	api "k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/load"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
)

// The modes.
const (
	Node        = "Node"
	RBAC        = "RBAC"
	Webhook     = "Webhook"
	AlwaysAllow = "AlwaysAllow"
)

// A Chain is the configured Authorizers. Make one with [Open].
type Chain struct {
	file    *reload.File // nil without one
	nodes   authz.Authorizer
	roles   authz.Authorizer
	log     *slog.Logger
	current atomic.Pointer[links]
	// opened are all webhooks so far. Only Open, Watch and Close use them, one after another.
	opened []*webhook
}

// links are the Authorizers of one configuration.
type links struct {
	authz.Union
	node bool // the mode Node is one of them
}

// Open returns the Chain for the options. nodes is the Authorizer of the mode Node, and roles that
// of RBAC.
func Open(o Options, nodes, roles authz.Authorizer, log *slog.Logger) (*Chain, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	c := &Chain{nodes: nodes, roles: roles, log: log}
	if o.ConfigFile != "" {
		var err error
		c.file, err = reload.Open(context.Background(), "authorization configuration", c.load, o.ConfigFile)
		return c, err
	}
	config, err := o.config()
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

// build returns the Authorizers of a configuration.
func (c *Chain) build(config *api.AuthorizationConfiguration) (*links, error) {
	for _, a := range config.Authorizers {
		switch string(a.Type) {
		case "ABAC", "AlwaysDeny":
			return nil, fmt.Errorf("authorization mode %q is not supported: want Node, RBAC, Webhook or AlwaysAllow", a.Type)
		}
	}
	var compiler authorizationcel.Compiler
	if slices.ContainsFunc(config.Authorizers, func(a api.AuthorizerConfiguration) bool { return a.Webhook != nil }) {
		compiler = authorizationcel.NewDefaultCompiler()
	}
	problems := validation.ValidateAuthorizationConfiguration(compiler, nil, config, sets.New(Node, RBAC, Webhook, AlwaysAllow), sets.New(Webhook))
	if len(problems) > 0 {
		return nil, problems.ToAggregate()
	}
	l := &links{}
	for _, a := range config.Authorizers {
		switch string(a.Type) {
		case Node:
			l.Union, l.node = append(l.Union, c.nodes), true
		case RBAC:
			l.Union = append(l.Union, c.roles)
		case AlwaysAllow:
			l.Union = append(l.Union, authenticated{})
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

// load replaces the configuration by the content of the file.
func (c *Chain) load(_ context.Context, contents [][]byte) error {
	if len(contents[0]) == 0 {
		return errors.New("the file is empty")
	}
	config, err := load.LoadFromData(contents[0])
	if err != nil {
		return err
	}
	l, err := c.build(config)
	if err == nil {
		c.current.Store(l)
	}
	return err
}

// Watch loads the file again when it changes, until ctx is done. Without a file it returns at once.
func (c *Chain) Watch(ctx context.Context) {
	if c.file != nil {
		reload.Watch(ctx, c.log, c.file)
	}
}

// Close closes idle connections to webhooks. Call it after Watch has returned and after the last
// request.
func (c *Chain) Close() {
	for _, w := range c.opened {
		w.transport.CloseIdleConnections()
	}
}

// Node reports whether the mode Node is in use.
func (c *Chain) Node() bool { return c.current.Load().node }

// Authorize implements authz.Authorizer.
func (c *Chain) Authorize(ctx context.Context, a *authz.Attributes) (authz.Decision, string, error) {
	return c.current.Load().Authorize(ctx, a)
}

// RulesFor implements authz.RuleResolver.
func (c *Chain) RulesFor(ctx context.Context, u *authn.User, namespace string) ([]rbacv1.PolicyRule, bool, error) {
	return c.current.Load().RulesFor(ctx, u, namespace)
}

// authenticated allows all requests except anonymous ones, which Kubernetes rejects in this mode.
type authenticated struct{}

func (authenticated) AuthorizerName() string { return "alwaysallow" }

func (authenticated) Authorize(_ context.Context, a *authz.Attributes) (authz.Decision, string, error) {
	if a.User == nil || a.User.Name == authn.Anonymous || a.User.In(authn.Unauthenticated) {
		return authz.NoOpinion, "", nil
	}
	return authz.Allow, "", nil
}

func (authenticated) RulesFor(_ context.Context, u *authn.User, _ string) ([]rbacv1.PolicyRule, bool, error) {
	if u.Name == authn.Anonymous || u.In(authn.Unauthenticated) {
		return nil, false, nil
	}
	all := []string{"*"}
	return []rbacv1.PolicyRule{{Verbs: all, APIGroups: all, Resources: all}, {Verbs: all, NonResourceURLs: all}}, false, nil
}
