package policy

import (
	"context"
	"errors"
	"fmt"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authz"
	"github.com/kapok-dev/kapok/internal/causes"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Readers rejects policies and bindings of users who may not read the parameters: a policy can
// reveal them in its messages. It implements admission.Validator. It must be the first validator,
// because in Kubernetes it belongs to the validation of the object.
type Readers struct{ *Policies }

// Readers returns the plugin that authorizes access to the parameters of policies.
func (p *Policies) Readers() Readers { return Readers{p} }

// Handles implements admission.Plugin.
func (p Readers) Handles(r *resource.Request, op resource.Operation) bool {
	return r.Definition.Group == admissionv1.GroupName && r.Subresource == "" &&
		(op == resource.OperationCreate || op == resource.OperationUpdate) && ofPolicies(r.Definition.GroupResource())
}

// Validate implements admission.Validator.
func (p Readers) Validate(ctx context.Context, a *resource.Admitted) error {
	if authn.Of(a.Request.User).In(authn.Masters) {
		return nil
	}
	var at *field.Path
	var err error
	switch a.Request.Definition.Plural {
	case "validatingadmissionpolicies", "mutatingadmissionpolicies":
		at, err = field.NewPath("spec", "paramKind"), p.mayReadKind(ctx, a)
	default:
		at, err = field.NewPath("spec", "paramRef"), p.mayReadObjects(ctx, a)
	}
	if err == nil {
		return nil
	}
	return causes.Invalid(a.Kind.GroupKind(), a.Name, field.ErrorList{field.Forbidden(at, err.Error())})
}

// A reader has the fields about parameters that both kinds of policies, and of bindings, have.
type reader struct {
	Spec struct {
		PolicyName string                 `json:"policyName"`
		ParamKind  *admissionv1.ParamKind `json:"paramKind"`
		ParamRef   *admissionv1.ParamRef  `json:"paramRef"`
	} `json:"spec"`
}

func readerOf(obj resource.Tree) (*reader, error) {
	if obj == nil {
		return &reader{}, nil
	}
	return typed[reader](resource.Tree{"spec": obj["spec"]})
}

// readers returns those fields of an object, and of the old one.
func readers(a *resource.Admitted) (now, before *reader, err error) {
	if now, err = readerOf(a.Object); err != nil {
		return nil, nil, err
	}
	before, err = readerOf(a.Old)
	return now, before, err
}

func (p Readers) mayReadKind(ctx context.Context, a *resource.Admitted) error {
	now, before, err := readers(a)
	if err != nil {
		return err
	}
	kind := now.Spec.ParamKind
	if kind == nil || before.Spec.ParamKind != nil && *before.Spec.ParamKind == *kind {
		return nil
	}
	asked, _, _ := p.asked(kind)
	asked.Verb, asked.Name, asked.Namespace = "get", "*", "*"
	return p.may(ctx, a, asked, func(u *authn.User) error {
		return fmt.Errorf(`user %v must have "get" permission on all objects of the referenced paramKind (kind=%s, apiVersion=%s)`, shownUser(u), kind.Kind, kind.APIVersion)
	})
}

func (p Readers) mayReadObjects(ctx context.Context, a *resource.Admitted) error {
	now, before, err := readers(a)
	if err != nil {
		return err
	}
	ref, name := now.Spec.ParamRef, now.Spec.PolicyName
	if ref == nil || name == before.Spec.PolicyName && equality.Semantic.DeepEqual(ref, before.Spec.ParamRef) {
		return nil
	}
	kind, found := p.kindOf(a, name)
	asked, unparsed, unresolved := p.asked(kind)
	asked.Verb, asked.Name, asked.Namespace = "get", ref.Name, ref.Namespace
	if ref.Name == "" {
		asked.Verb = "list"
	}
	return p.may(ctx, a, asked, func(u *authn.User) error {
		const least = `to determine minimum required permissions and user %v does not have "%v" permission for all groups, versions and resources`
		switch {
		case !found:
			return fmt.Errorf("unable to get policy %s "+least, name, shownUser(u), asked.Verb)
		case unparsed:
			return fmt.Errorf("unable to parse paramKind %v "+least, kind, shownUser(u), asked.Verb)
		case unresolved:
			return fmt.Errorf("unable to resolve paramKind %v "+least, kind, shownUser(u), asked.Verb)
		case a.Request.Definition.Plural == "mutatingadmissionpolicybindings": // Kubernetes confuses the two resources
			return fmt.Errorf(`user %v does not have "%v" permission on the object referenced by paramRef`, asked.Verb, shownUser(u))
		}
		return fmt.Errorf(`user %v does not have "%v" permission on the object referenced by paramRef`, shownUser(u), asked.Verb)
	})
}

// kindOf returns the kind of the parameters of the policy that a binding names, and whether that
// policy exists.
func (p Readers) kindOf(a *resource.Admitted, name string) (*admissionv1.ParamKind, bool) {
	gr := p.validating.policies
	if a.Request.Definition.Plural == "mutatingadmissionpolicybindings" {
		gr = p.mutating.policies
	}
	o, _ := p.store.State().Get(object.Key{Resource: gr, Name: name})
	d := p.store.Registry().Load().Resource(gr)
	if o == nil || d == nil {
		return nil, false
	}
	obj, err := tree(d, o)
	if err != nil {
		return nil, false
	}
	policy, err := readerOf(obj)
	if err != nil {
		return nil, false
	}
	return policy.Spec.ParamKind, true
}

// asked returns the attributes to authorize for a kind: its resource, or all resources if the kind
// is unknown.
func (p Readers) asked(kind *admissionv1.ParamKind) (a *authz.Attributes, unparsed, unresolved bool) {
	a = &authz.Attributes{ResourceRequest: true, APIGroup: "*", APIVersion: "*", Resource: "*"}
	if kind == nil {
		return a, false, false
	}
	gv, err := schema.ParseGroupVersion(kind.APIVersion)
	if err != nil {
		return a, true, false
	}
	a.APIGroup, a.APIVersion = gv.Group, gv.Version
	found, err := p.paramKind(kind)
	if err != nil {
		return a, false, true
	}
	a.Resource = found.definition.Plural
	return a, false, false
}

// may authorizes an access, and returns refusal's error if it is denied.
func (p Readers) may(ctx context.Context, a *resource.Admitted, asked *authz.Attributes, refusal func(*authn.User) error) error {
	err := authz.Permit(ctx, p.authorizer, a.Request.User, asked)
	if status := (*apierrors.StatusError)(nil); err != nil && errors.As(err, &status) && apierrors.IsForbidden(status) {
		return refusal(authn.Of(a.Request.User))
	}
	return err
}

// shownUser returns a user as Kubernetes prints one in messages.
func shownUser(u *authn.User) any {
	return &struct {
		Name, UID string
		Groups    []string
		Extra     map[string][]string
	}{u.Name, u.UID, u.Groups, u.Extra}
}
