package builtin

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/resource"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// authentication is the group authentication.k8s.io: questions about who somebody is. Nothing is kept of them.
func authentication() []row {
	return []row{
		identityReview("tokenreviews", "TokenReview", reviewToken),
		identityReview("selfsubjectreviews", "SelfSubjectReview", reviewSelf),
	}
}

// identityReview is a kind of which nothing is kept: creating one is asking, and it comes back with the answer.
func identityReview[B any](plural, kind string, answer func(ctx context.Context, s *resource.Store, r *resource.Request, body *B) (*B, error)) row {
	gvk := authenticationv1.SchemeGroupVersion.WithKind(kind)
	ask := action(gvk, func(ctx context.Context, s *resource.Store, r *resource.Request, body *B) (resource.Result, error) {
		// Of what the server sets, nothing is the client's to say.
		meta := any(body).(metav1.Object)
		meta.SetUID("")
		meta.SetCreationTimestamp(metav1.Time{})
		meta.SetDeletionTimestamp(nil)
		meta.SetDeletionGracePeriodSeconds(nil)
		answered, err := answer(ctx, s, r, body)
		if err != nil {
			return resource.Result{}, err
		}
		return shown(gvk.GroupVersion().String(), kind, answered)
	})
	return row{Definition: &resource.Definition{
		Group: gvk.Group, Plural: plural, Singular: strings.ToLower(kind), Kind: kind, ListKind: kind + "List",
		Versions: []*resource.Version{{Name: gvk.Version, Model: ask.Model}},
		Action:   ask,
	}}
}

// shown is the answer of an action that is an object.
func shown(apiVersion, kind string, obj any) (resource.Result, error) {
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return resource.Result{}, err
	}
	tree["apiVersion"], tree["kind"] = apiVersion, kind
	return resource.Result{Tree: tree}, nil
}

// reviewToken says who bears a token. Whoever may ask has the token already.
func reviewToken(ctx context.Context, s *resource.Store, _ *resource.Request, review *authenticationv1.TokenReview) (*authenticationv1.TokenReview, error) {
	if review.Spec.Token == "" {
		return nil, apierrors.NewBadRequest("token is required for TokenReview in authentication")
	}
	review.Status = authenticationv1.TokenReviewStatus{}
	gate := s.Gate()
	wanted := review.Spec.Audiences
	if len(wanted) == 0 && gate.Accounts != nil {
		wanted = gate.Accounts.Audiences()
	}
	if gate.Tokens == nil {
		review.Status.Error = errNoBearer.Error()
		return review, nil
	}
	u, audiences, err := gate.Tokens.AuthenticateToken(ctx, review.Spec.Token, wanted)
	if u == nil || err != nil {
		review.Status.Error = utilerrors.NewAggregate(append([]error{errNoBearer}, single(err)...)).Error()
		return review, nil
	}
	review.Status.Authenticated = true
	review.Status.Audiences = audiences
	review.Status.User = userInfo(u.Name, u.UID, u.Groups, u.Extra)
	return review, nil
}

// errNoBearer is what Kubernetes says first of every token that it does not know.
const errNoBearer = refusal("invalid bearer token")

// single are the errors that were joined to one.
func single(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

// reviewSelf says who asks.
func reviewSelf(_ context.Context, _ *resource.Store, r *resource.Request, _ *authenticationv1.SelfSubjectReview) (*authenticationv1.SelfSubjectReview, error) {
	if r.User == nil {
		return nil, apierrors.NewBadRequest("no user present on request")
	}
	return &authenticationv1.SelfSubjectReview{
		ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(time.Now())},
		Status:     authenticationv1.SelfSubjectReviewStatus{UserInfo: userInfo(r.User.Name, r.User.UID, r.User.Groups, r.User.Extra)},
	}, nil
}

func userInfo(name, uid string, groups []string, extra map[string][]string) authenticationv1.UserInfo {
	info := authenticationv1.UserInfo{Username: name, UID: uid, Groups: slices.Clone(groups)}
	for key, values := range extra {
		if info.Extra == nil {
			info.Extra = map[string]authenticationv1.ExtraValue{}
		}
		info.Extra[key] = slices.Clone(values)
	}
	return info
}
