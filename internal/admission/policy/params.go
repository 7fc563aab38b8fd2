package policy

import (
	"context"
	"errors"
	"fmt"

	"github.com/kapok-dev/kapok/internal/resource"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A paramKind is the resource of a policy's parameters.
type paramKind struct {
	definition *resource.Definition
	version    *resource.Version
}

// paramKind returns the resource of a policy's parameters; nil if it has none.
func (p *Policies) paramKind(ref *admissionv1.ParamKind) (*paramKind, error) {
	if ref == nil {
		return nil, nil
	}
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return nil, fmt.Errorf("failed to parse paramKind APIVersion: %w", err)
	}
	gvk := gv.WithKind(ref.Kind)
	if d := p.store.Registry().Load().Kind(gvk.GroupKind()); d != nil && d.Action == nil {
		if v := d.Version(gv); v != nil {
			return &paramKind{d, v}, nil
		}
	}
	return nil, fmt.Errorf("failed to find resource referenced by paramKind: '%v'", gvk)
}

// A param is one parameter object. The zero value stands for no parameter.
type param struct {
	namespace, name string
	value           any // for CEL
}

// collect returns the parameters of a binding, with each of which the policy is evaluated.
// namespace is that of the request.
func (p *Policies) collect(ctx context.Context, kind *paramKind, b *binding, namespace string) ([]param, error) {
	if kind == nil || b.params == nil {
		return []param{{}}, nil
	}
	ref := b.params
	r := &resource.Request{Definition: kind.definition, Version: kind.version, Name: ref.Name, Warn: func(string) {}}
	switch {
	case kind.definition.Namespaced:
		if r.Namespace = ref.Namespace; r.Namespace == "" {
			r.Namespace = namespace
		}
		if r.Namespace == "" {
			return nil, errors.New("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
		}
	case ref.Namespace != "":
		return nil, errors.New("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
	}
	params, err := p.read(ctx, r, b)
	if err != nil {
		return nil, err
	}
	if len(params) == 0 && ref.ParameterNotFoundAction != nil && *ref.ParameterNotFoundAction == admissionv1.DenyAction {
		return nil, errors.New("no params found for policy binding with `Deny` parameterNotFoundAction")
	}
	return params, nil
}

// read returns the parameters that a binding names or selects.
func (p *Policies) read(ctx context.Context, r *resource.Request, b *binding) ([]param, error) {
	switch {
	case r.Name != "" && b.params.Selector != nil:
		return nil, errors.New("paramRef.name and paramRef.selector are mutually exclusive")
	case r.Name != "":
		found, err := p.store.Get(ctx, r, "")
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return appendParam(nil, r, found)
	case b.err != nil:
		return nil, b.err
	case b.selector != nil:
		return p.selected(ctx, r, b.selector)
	}
	return nil, errors.New("one of name or selector must be provided")
}

func (p *Policies) selected(ctx context.Context, r *resource.Request, selector labels.Selector) (params []param, err error) {
	found, err := p.store.List(ctx, r, resource.ListOptions{Labels: selector, Fields: fields.Everything()})
	if err != nil {
		return nil, err
	}
	for _, o := range found.Objects {
		if params, err = appendParam(params, r, resource.Result{Object: o}); err != nil {
			return nil, err
		}
	}
	return params, nil
}

func appendParam(params []param, r *resource.Request, found resource.Result) ([]param, error) {
	obj, err := resource.TreeOf(r.Definition, r.Version, found.Object)
	if err != nil {
		return nil, err
	}
	key := found.Object.Key
	return append(params, param{key.Namespace, key.Name, value(obj)}), nil
}
