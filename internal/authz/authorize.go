// Package authz authorizes requests.
//
// An [Authorizer] decides whether a user may send a request. [Basic] allows members of
// system:masters everything, and all users the health checks. A [Union] calls it first and then
// others, such as package rbac, which decides by roles, and package modes. [Impersonate] returns
// the user that a request acts as, if its sender may act as that user.
//
// Errors are *errors.StatusError of k8s.io/apimachinery with Kubernetes' messages. The package
// keeps no state, starts no goroutine, and is safe for concurrent use.
package authz

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kapok-dev/kapok/internal/authn"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Attributes are the input of a decision: Kubernetes' request info, and the user. Path is for
// requests that are not for a resource, and the fields from APIGroup on are for those that are.
// They must not be changed while an Authorizer uses them.
type Attributes struct {
	User            *authn.User
	Verb            string // of the API (list, watch, patch ...), or the HTTP method in lower case
	Path            string
	ResourceRequest bool

	APIGroup    string
	APIVersion  string
	Resource    string
	Subresource string
	Namespace   string
	Name        string

	// Fields and Labels are the valid requirements of selectors. Authorizers may allow a list
	// because of them.
	Fields fields.Requirements
	Labels labels.Requirements
}

// A Decision is the result of an Authorizer.
type Decision int

// NoOpinion leaves a request to the next Authorizer; without one, it is rejected.
const (
	NoOpinion Decision = iota
	Allow
	Deny
)

// An Authorizer decides what users may do. Implementations are safe for concurrent use.
type Authorizer interface {
	// Authorize returns a decision and its reason, for error messages and the audit log. With
	// NoOpinion, err is the error that prevented a decision.
	Authorize(ctx context.Context, a *Attributes) (d Decision, reason string, err error)
}

// A Named Authorizer has a name, which precedes its reasons if it has no opinion.
type Named interface {
	AuthorizerName() string
}

// A Union calls one Authorizer after another until one has an opinion.
type Union []Authorizer

// Authorize implements Authorizer. It joins reasons and errors of Authorizers without an opinion.
func (u Union) Authorize(ctx context.Context, a *Attributes) (Decision, string, error) {
	var reasons []string
	var errs []error
	for _, one := range u {
		d, reason, err := one.Authorize(ctx, a)
		if d != NoOpinion {
			return d, reason, err
		}
		name := ""
		if n, ok := one.(Named); ok {
			name = n.AuthorizerName() + ": "
		}
		if reason != "" {
			reasons = append(reasons, name+reason)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s%w", name, err))
		}
	}
	return NoOpinion, strings.Join(reasons, "\n"), errors.Join(errs...)
}

// Basic allows system:masters everything, and all users to request the health of the server.
type Basic struct{}

// Authorize implements Authorizer. It has no opinion on requests without a user.
func (Basic) Authorize(_ context.Context, a *Attributes) (Decision, string, error) {
	if a.User != nil && a.User.In(authn.Masters) || public(a) {
		return Allow, "", nil
	}
	return NoOpinion, "", nil
}

// Check returns nil if the authorizer allows a request; the authorizer's error, if there is one, if
// it does not; and otherwise 403 Forbidden with Kubernetes' message.
func Check(ctx context.Context, by Authorizer, a *Attributes) error {
	d, reason, err := by.Authorize(ctx, a)
	switch {
	case d == Allow:
		return nil
	case err != nil:
		return err
	}
	return Forbidden(a, reason)
}

// Permit is Check for an action that is not the request itself. It sets a.User. A nil user is the
// server, which is allowed everything; so are all users if the authorizer is nil.
func Permit(ctx context.Context, by Authorizer, u authn.Info, a *Attributes) error {
	if u == nil || by == nil {
		return nil
	}
	a.User = authn.Of(u)
	return Check(ctx, by, a)
}

// Forbidden returns the error for a rejected request, with the authorizer's reason unless it is "".
func Forbidden(a *Attributes, reason string) error {
	text := refusal(a)
	if reason != "" {
		text += ": " + reason
	}
	resource := schema.GroupResource{Group: a.APIGroup, Resource: a.Resource}
	return apierrors.NewForbidden(resource, a.Name, errors.New(text))
}

// public reports whether the request needs no permission, as in kube-apiserver. Single checks, such
// as /readyz/ping, do need one.
func public(a *Attributes) bool {
	if a.ResourceRequest || a.User == nil {
		return false
	}
	switch a.Path {
	case "/healthz", "/livez", "/readyz":
		return a.Verb == "get" || a.Verb == "head"
	}
	return false
}

// OwnPath reports whether a path is one of Kapok's own, such as that of the snapshot, which
// contains all Secrets. Wildcards that grant the paths of Kubernetes (health, metrics, discovery)
// do not include them: a rule must name both path and verb literally.
func OwnPath(path string) bool { return strings.HasPrefix(path, "/kapok/") }

func refusal(a *Attributes) string {
	name := ""
	if a.User != nil {
		name = a.User.Name
	}
	var text string
	switch {
	case !a.ResourceRequest:
		text = fmt.Sprintf("User %q cannot %s path %q", name, a.Verb, a.Path)
	case a.Namespace != "":
		text = fmt.Sprintf("User %q cannot %s resource %q in API group %q in the namespace %q",
			name, a.Verb, a.resource(), a.APIGroup, a.Namespace)
	default:
		text = fmt.Sprintf("User %q cannot %s resource %q in API group %q at the cluster scope",
			name, a.Verb, a.resource(), a.APIGroup)
	}
	// A browser must not interpret the response as HTML. Quotes are not escaped, as in Kubernetes.
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text)
}

func (a *Attributes) resource() string {
	if a.Subresource == "" {
		return a.Resource
	}
	return a.Resource + "/" + a.Subresource
}
