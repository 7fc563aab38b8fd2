package auth

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Attributes are what a decision depends on: Kubernetes' request info, and the
// user. Path counts for requests that are not for a resource, and the fields
// from APIGroup on for those that are.
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
}

// Authorize returns nil if the user may, and 403 Forbidden with Kubernetes'
// message if not. A missing user may nothing.
func Authorize(a Attributes) error {
	if a.User != nil && a.User.In(Masters) || public(a) {
		return nil
	}
	resource := schema.GroupResource{Group: a.APIGroup, Resource: a.Resource}
	return apierrors.NewForbidden(resource, a.Name, errors.New(refusal(a)))
}

// public says whether a request is for what everybody may see: what
// kube-apiserver serves without asking, and its role system:public-info-viewer.
// Single checks (/readyz/ping) are not among it, there as here.
func public(a Attributes) bool {
	if a.ResourceRequest || a.User == nil {
		return false
	}
	switch a.Path {
	case "/healthz", "/livez", "/readyz":
		return a.Verb == "get" || a.Verb == "head"
	case "/version", "/version/":
		return a.Verb == "get"
	}
	return false
}

func refusal(a Attributes) string {
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

func (a Attributes) resource() string {
	if a.Subresource == "" {
		return a.Resource
	}
	return a.Resource + "/" + a.Subresource
}
