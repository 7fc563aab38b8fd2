package access

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kapok-dev/kapok/internal/authn/serviceaccount"
	"github.com/kapok-dev/kapok/internal/causes"
	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/kinds/users"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var tokenRequestKind = authenticationv1.SchemeGroupVersion.WithKind("TokenRequest")

// RequestToken issues a token of a service account.
func RequestToken() *resource.Action {
	return kind.Action(tokenRequestKind, defaultTokenRequest, func(ctx context.Context, s *resource.Store, r *resource.Request, body *authenticationv1.TokenRequest) (resource.Result, error) {
		issuer := users.Of(r).Accounts
		if issuer == nil {
			return resource.Result{}, apierrors.NewInternalError(errors.New("the server does not issue tokens"))
		}
		if _, err := s.State().Sync(ctx); err != nil { // another server may have created the account
			return resource.Result{}, apierrors.NewInternalError(err)
		}
		t := &tokenRequest{store: s, request: r, issuer: issuer, body: body, now: time.Now()}
		if err := t.complete(); err != nil {
			return resource.Result{}, err
		}
		if err := t.issue(); err != nil {
			return resource.Result{}, err
		}
		return shown(tokenRequestKind.GroupVersion().String(), tokenRequestKind.Kind, t.body)
	})
}

// tokenRequest is the state of one request for a token.
type tokenRequest struct {
	store   *resource.Store
	request *resource.Request
	issuer  *serviceaccount.Issuer
	body    *authenticationv1.TokenRequest
	now     time.Time
	grant   serviceaccount.Grant
}

// complete sets omitted fields and rejects invalid requests.
func (t *tokenRequest) complete() error {
	r, body := t.request, t.body
	if body.Name != "" && body.Name != r.Name {
		return causes.Invalid(tokenRequestKind.GroupKind(), r.Name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "name"), body.Name, "must match the service account name if specified"),
		})
	}
	account, err := t.find("serviceaccounts", r.Namespace, r.Name)
	if err != nil {
		return err
	}
	if uid := account.Meta.UID; body.UID != "" && body.UID != uid {
		return apierrors.NewConflict(schema.GroupResource{Group: tokenRequestKind.Group, Resource: tokenRequestKind.Kind}, r.Name,
			fmt.Errorf("the UID in the token request (%s) does not match the UID of the service account (%s)", body.UID, uid))
	}
	if len(body.Spec.Audiences) == 0 {
		body.Spec.Audiences = t.issuer.Audiences()
	}
	body.Name, body.Namespace, body.UID = r.Name, r.Namespace, account.Meta.UID
	body.CreationTimestamp = metav1.NewTime(t.now)
	body.Status = authenticationv1.TokenRequestStatus{}
	if problems := validateTokenRequest(body); len(problems) > 0 {
		return causes.Invalid(tokenRequestKind.GroupKind(), "", problems)
	}
	t.grant = serviceaccount.Grant{Namespace: r.Namespace, Account: refOf(account), Audiences: body.Spec.Audiences}
	return t.bind()
}

// bind binds the token to the object that the request names, if any.
func (t *tokenRequest) bind() error {
	ref := t.body.Spec.BoundObjectRef
	if ref == nil {
		return nil
	}
	var bound *object.Object
	var err error
	gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	switch core := gvk.Group == ""; {
	case core && gvk.Kind == "Pod":
		if bound, err = t.find("pods", t.request.Namespace, ref.Name); err == nil {
			err = t.bindPod(bound)
		}
	case core && gvk.Kind == "Secret":
		bound, err = t.find("secrets", t.request.Namespace, ref.Name)
		t.grant.Secret = refTo(bound)
	case core && gvk.Kind == "Node":
		bound, err = t.find("nodes", "", ref.Name)
		t.grant.Node = refTo(bound)
	case referencesWebhooks(ref):
		err = apierrors.NewBadRequest(fmt.Sprintf("cannot bind token to object of type %s (feature gate APIServerWebhookAuthenticationToken is disabled)", gvk))
	default:
		err = apierrors.NewBadRequest(fmt.Sprintf("cannot bind token to object of type %s", gvk))
	}
	if err != nil {
		return err
	}
	if ref.UID != "" && ref.UID != types.UID(bound.Meta.UID) {
		return apierrors.NewConflict(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, ref.Name,
			fmt.Errorf("the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", ref.UID))
	}
	return nil
}

// bindPod binds the token to a pod, and adds the pod's node to its claims.
func (t *tokenRequest) bindPod(pod *object.Object) error {
	tree, err := pod.Tree()
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if kind.Text(tree, "spec", "serviceAccountName") != t.request.Name {
		return apierrors.NewBadRequest(fmt.Sprintf("cannot bind token for serviceaccount %q to pod running with different serviceaccount name.", t.request.Name))
	}
	t.grant.Pod = refTo(pod)
	if name := kind.Text(tree, "spec", "nodeName"); name != "" {
		t.grant.Node = &serviceaccount.Ref{Name: name}
		if node, err := t.find("nodes", "", name); err == nil {
			t.grant.Node = refTo(node)
		}
	}
	return nil
}

func (t *tokenRequest) issue() error {
	asked := time.Duration(*t.body.Spec.ExpirationSeconds) * time.Second
	if t.grant.Lifetime = t.issuer.Limit(asked); t.grant.Lifetime < asked {
		seconds := int64(t.grant.Lifetime / time.Second)
		t.request.Warn(fmt.Sprintf("requested expiration of %d seconds shortened to %d seconds", *t.body.Spec.ExpirationSeconds, seconds))
		t.body.Spec.ExpirationSeconds = &seconds
	}
	token, err := t.issuer.Issue(t.grant, t.now)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("failed to generate token: %w", err))
	}
	t.body.Status = authenticationv1.TokenRequestStatus{Token: token, ExpirationTimestamp: metav1.NewTime(t.now.Add(t.grant.Lifetime))}
	return nil
}

// find returns an object of a core resource.
func (t *tokenRequest) find(plural, namespace, name string) (*object.Object, error) {
	gr := schema.GroupResource{Resource: plural}
	o, _ := t.store.State().Get(object.Key{Resource: gr, Namespace: namespace, Name: name})
	if o == nil {
		return nil, apierrors.NewNotFound(gr, name)
	}
	return o, nil
}

func refOf(o *object.Object) serviceaccount.Ref {
	return serviceaccount.Ref{Name: o.Key.Name, UID: string(o.Meta.UID)}
}

func refTo(o *object.Object) *serviceaccount.Ref {
	if o == nil {
		return nil
	}
	ref := refOf(o)
	return &ref
}
