package policy

import (
	"context"

	"github.com/kapok-dev/kapok/internal/admission/match"
	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/library"
)

// A subject is a request that policies are evaluated for.
type subject struct {
	*Policies
	*resource.Admitted
	space *object.Object    // the namespace; nil if there is none, or the request is for a namespace
	form  *resource.Version // that Object is in; nil for that of the request
	shows map[match.As]*shown
}

func (p *Policies) subject(a *resource.Admitted) *subject {
	return &subject{Policies: p, Admitted: a, shows: map[match.As]*shown{}}
}

var namespaces = schema.GroupResource{Resource: "namespaces"}

// Namespace returns the request's namespace as admission defines it.
func (s *subject) Namespace() string { return match.Namespace(s.Admitted) }

// findNamespace looks up the namespace of the request. As in Kubernetes, a missing one is an error.
func (s *subject) findNamespace() error {
	name := s.Namespace()
	if name == "" || s.Request.Definition.GroupResource() == namespaces || s.space != nil {
		return nil
	}
	if s.space, _ = s.store.State().Get(object.Key{Resource: namespaces, Name: name}); s.space == nil {
		return apierrors.NewNotFound(namespaces, name)
	}
	return nil
}

// ownBody reports whether the bodies of the request have a kind of their own, like Scale, which is
// the same in all versions.
func (s *subject) ownBody() bool {
	return s.Kind != s.Request.Definition.GroupVersionKind(s.Request.Version)
}

// show returns the request in the version of a rule. It returns the same value until the object
// changes.
func (s *subject) show(ctx context.Context, as match.As) (*shown, error) {
	if known := s.shows[as]; known != nil {
		return known, nil
	}
	obj, old := s.Object, s.Old
	if as.Version != s.Request.Version && !s.ownBody() {
		var err error
		if s.form == nil {
			if obj, err = s.Request.Definition.Translate(ctx, obj, s.Request.Version, as.Version); err != nil {
				return nil, err
			}
		}
		if old, err = s.Request.Definition.Translate(ctx, old, s.Request.Version, as.Version); err != nil {
			return nil, err
		}
	}
	v := &shown{subject: s, as: as, tree: obj, values: &values{}}
	v.object, v.old = value(obj), value(old)
	s.shows[as] = v
	return v, nil
}

// forget discards the forms of the object after a change.
func (s *subject) forget() { clear(s.shows) }

// shown is a request in the form that expressions see. Parts that few expressions use are made on
// demand.
type shown struct {
	*subject
	as          match.As
	tree        resource.Tree // of the object
	object, old any           // CEL values; nil for none
	// original means that the request's own resource is shown, whatever the version of the object.
	original bool
	*values
}

type values struct {
	asked, conditions, in    ref.Val
	permitted, permittedHere ref.Val
}

func value(obj resource.Tree) any {
	if obj == nil {
		return nil
	}
	return types.DefaultTypeAdapter.NativeToValue(obj)
}

// toConditions returns the request as match conditions see it: without its namespace, and with its
// original resource.
func (v *shown) toConditions() *shown {
	c := *v
	c.original = true
	return &c
}

func (v *shown) request() ref.Val {
	into := &v.asked
	if v.original {
		into = &v.conditions
	}
	if *into == nil {
		*into = common.SchemalessTypedToVal(v.admissionRequest())
	}
	return *into
}

func (v *shown) admissionRequest() *admissionv1.AdmissionRequest {
	r := v.Request
	sentTo := metav1.GroupVersionResource(r.Definition.GroupVersion(r.Version).WithResource(r.Definition.Plural))
	sent, dryRun := metav1.GroupVersionKind(v.Kind), r.DryRun
	request := &admissionv1.AdmissionRequest{
		Kind:               metav1.GroupVersionKind(v.as.Kind),
		Resource:           metav1.GroupVersionResource(v.as.Resource),
		SubResource:        r.Subresource,
		RequestKind:        &sent,
		RequestResource:    &sentTo,
		RequestSubResource: r.Subresource,
		Name:               v.Name,
		Namespace:          v.Namespace(),
		Operation:          admissionv1.Operation(v.Operation),
		DryRun:             &dryRun,
		Options:            runtime.RawExtension{Object: v.Options},
	}
	if v.original {
		request.Resource = sentTo
	}
	if u := authn.Of(r.User); u != nil {
		request.UserInfo = authenticationv1.UserInfo{Username: u.Name, UID: u.UID, Groups: u.Groups, Extra: map[string]authenticationv1.ExtraValue{}}
		for key, values := range u.Extra {
			request.UserInfo.Extra[key] = values
		}
	}
	return request
}

// namespace returns the namespace of the request, without the metadata that Kubernetes leaves out.
func (v *shown) namespace() ref.Val {
	if v.space == nil || v.original {
		return types.NullValue
	}
	if v.in == nil {
		d := v.store.Registry().Load().Resource(namespaces)
		obj, err := tree(d, v.space)
		if err != nil {
			return types.WrapErr(err)
		}
		ns, err := typed[corev1.Namespace](obj)
		if err != nil {
			return types.WrapErr(err)
		}
		v.in = common.SchemalessTypedToVal(plugincel.CreateNamespaceObject(ns))
	}
	return v.in
}

func (v *shown) authorizer() ref.Val {
	if v.permitted == nil {
		v.permitted = library.NewAuthorizerVal(v.Request.User, authorizer{v.Policies.authorizer})
	}
	return v.permitted
}

func (v *shown) resourceAuthorizer() ref.Val {
	if v.permittedHere == nil {
		v.permittedHere = library.NewResourceAuthorizerVal(v.Request.User, authorizer{v.Policies.authorizer}, requested{v.subject})
	}
	return v.permittedHere
}

// requested has the attributes of the request, for authorizer.requestResource.
type requested struct{ *subject }

func (r requested) GetName() string        { return r.Name }
func (r requested) GetNamespace() string   { return r.Namespace() }
func (r requested) GetSubresource() string { return r.Request.Subresource }
func (r requested) GetResource() schema.GroupVersionResource {
	return r.Request.Definition.GroupVersion(r.Request.Version).WithResource(r.Request.Definition.Plural)
}
