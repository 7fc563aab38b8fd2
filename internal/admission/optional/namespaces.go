package optional

import (
	"context"
	"errors"
	"fmt"

	"github.com/kapok-dev/kapok/internal/admission"
	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var namespaces = schema.GroupResource{Resource: "namespaces"}

// NamespaceExists is Kubernetes' plugin of that name: it rejects writes in a namespace that does
// not exist. NamespaceLifecycle, which is always on, rejects creations before it does.
type NamespaceExists struct{ State *state.State }

// Handles implements admission.Plugin.
func (NamespaceExists) Handles(r *resource.Request, op resource.Operation) bool {
	return op != resource.OperationConnect && r.Namespace != ""
}

// Validate implements admission.Validator.
func (p NamespaceExists) Validate(_ context.Context, a *resource.Admitted) error {
	name := a.Request.Namespace
	if o, _ := p.State.Get(object.Key{Resource: namespaces, Name: name}); o == nil {
		return apierrors.NewNotFound(namespaces, name)
	}
	return nil
}

// NamespaceAutoProvision is Kubernetes' plugin of that name: it creates the missing namespace of a
// new object. It is not part of the chain, which runs after the check of the namespace: [Provide]
// is for [resource.Gate].
type NamespaceAutoProvision struct{ Store *resource.Store }

// Provide creates the namespace of a request, unless that is a dry run. The user of the request
// needs no permission for it: the server creates the namespace as kube-apiserver does, as a user of
// its own, so that admission sees the namespace.
func (p NamespaceAutoProvision) Provide(ctx context.Context, r *resource.Request, obj resource.Tree) error {
	if r.DryRun {
		return nil
	}
	if err := p.create(ctx, r.Namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		return admission.Forbidden(&resource.Admitted{Request: r, Name: r.Name, Object: obj}, err)
	}
	return nil
}

func (p NamespaceAutoProvision) create(ctx context.Context, name string) error {
	d := p.Store.Registry().Load().Resource(namespaces)
	if d == nil {
		return errors.New("namespaces are not served")
	}
	r := &resource.Request{
		Definition: d, Version: d.Storage,
		User:            &authn.User{Name: "system:apiserver", Groups: []string{authn.Masters, authn.Authenticated}},
		Options:         &metav1.CreateOptions{},
		Manager:         "kapok",
		FieldValidation: metav1.FieldValidationStrict,
		Warn:            func(string) {},
	}
	body := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, name)
	_, err := p.Store.Create(ctx, r, resource.Body{Data: body})
	return err
}
