package auth

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Attributes are what a decision depends on: Kubernetes' request info, and the
// user. Path counts for requests that are not for a resource, and the fields
// from APIGroup on for those that are. They are not changed once they are asked about.
type Attributes struct {
	User            *User
	Verb            string // of the API (list, watch, patch ...), or the HTTP method in lower case
	Path            string
	ResourceRequest bool

	APIGroup    string
	APIVersion  string
	Resource    string
	Subresource string
	Namespace   string
	Name        string

	// Fields and Labels are the requirements of selectors, as far as they could be read. Authorizers may allow a list
	// because of them.
	Fields fields.Requirements
	Labels labels.Requirements
}

// A Decision is what an Authorizer says of a request.
type Decision int

// NoOpinion leaves a request to the next Authorizer; if there is none, it is refused.
const (
	NoOpinion Decision = iota
	Allow
	Deny
)

// An Authorizer decides what users may do. Implementations are safe for concurrent use.
type Authorizer interface {
	// Authorize decides, and says why, for messages and for the audit. With NoOpinion, err says what
	// kept the Authorizer from knowing better.
	Authorize(ctx context.Context, a *Attributes) (d Decision, reason string, err error)
}

// A Named Authorizer has a name, which stands before its reasons where it has no opinion.
type Named interface {
	AuthorizerName() string
}

// A Union asks one Authorizer after another until one has an opinion.
type Union []Authorizer

// Authorize implements Authorizer. Reasons and errors of those that have no opinion are joined.
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

// Basic lets system:masters do everything, and everybody ask for the health of the server.
type Basic struct{}

// Authorize implements Authorizer. A missing user may nothing.
func (Basic) Authorize(_ context.Context, a *Attributes) (Decision, string, error) {
	if a.User != nil && a.User.In(Masters) || public(a) {
		return Allow, "", nil
	}
	return NoOpinion, "", nil
}

// Check returns nil if the authorizer allows a request, 403 Forbidden with Kubernetes' message if not,
// and the authorizer's error if it does not know.
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

// Forbidden is the refusal of a request, for a reason that the authorizer gives, if any.
func Forbidden(a *Attributes, reason string) error {
	text := refusal(a)
	if reason != "" {
		text += ": " + reason
	}
	resource := schema.GroupResource{Group: a.APIGroup, Resource: a.Resource}
	return apierrors.NewForbidden(resource, a.Name, errors.New(text))
}

// public says whether a request is one that kube-apiserver serves without asking. Single checks (/readyz/ping) are not
// among them, there as here.
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
	// A browser must not take the answer for HTML. Quotes stay, as in Kubernetes.
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text)
}

func (a *Attributes) resource() string {
	if a.Subresource == "" {
		return a.Resource
	}
	return a.Resource + "/" + a.Subresource
}
