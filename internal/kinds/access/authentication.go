package access

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/kinds/users"
	"github.com/kapok-dev/kapok/internal/resource"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// Authentication returns the reviews of group authentication.k8s.io, which are not stored.
func Authentication() []kind.Row {
	return []kind.Row{
		identityReview("tokenreviews", "TokenReview", reviewToken),
		identityReview("selfsubjectreviews", "SelfSubjectReview", reviewSelf),
	}
}

// identityReview returns a kind that is not stored: create returns the review with its answer.
func identityReview[P runtime.Object](plural, kindName string, answer func(ctx context.Context, s *resource.Store, r *resource.Request, body P) (P, error)) kind.Row {
	gvk := authenticationv1.SchemeGroupVersion.WithKind(kindName)
	ask := kind.Action(gvk, nil, func(ctx context.Context, s *resource.Store, r *resource.Request, body P) (resource.Result, error) {
		// Clients do not set the fields that the server sets.
		meta := any(body).(metav1.Object)
		meta.SetUID("")
		meta.SetCreationTimestamp(metav1.Time{})
		meta.SetDeletionTimestamp(nil)
		meta.SetDeletionGracePeriodSeconds(nil)
		answered, err := answer(ctx, s, r, body)
		if err != nil {
			return resource.Result{}, err
		}
		return shown(gvk.GroupVersion().String(), kindName, answered)
	})
	return kind.Row{Fixed: &resource.Definition{
		Group: gvk.Group, Plural: plural, Singular: strings.ToLower(kindName), Kind: kindName, ListKind: kindName + "List",
		Versions: []*resource.Version{{Name: gvk.Version, Model: ask.Model}},
		Action:   ask,
	}}
}

// shown returns an object as the result of an action.
func shown(apiVersion, kindName string, obj any) (resource.Result, error) {
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return resource.Result{}, err
	}
	tree["apiVersion"], tree["kind"] = apiVersion, kindName
	return resource.Result{Tree: tree}, nil
}

// reviewToken returns the user of a token. It discloses nothing new, as the client has the token.
func reviewToken(ctx context.Context, _ *resource.Store, r *resource.Request, review *authenticationv1.TokenReview) (*authenticationv1.TokenReview, error) {
	if review.Spec.Token == "" {
		return nil, apierrors.NewBadRequest("token is required for TokenReview in authentication")
	}
	review.Status = authenticationv1.TokenReviewStatus{}
	known := users.Of(r)
	wanted := review.Spec.Audiences
	if len(wanted) == 0 && known.Accounts != nil {
		wanted = known.Accounts.Audiences()
	}
	if known.Tokens == nil {
		review.Status.Error = errNoBearer.Error()
		return review, nil
	}
	u, audiences, err := known.Tokens.AuthenticateToken(ctx, review.Spec.Token, wanted)
	if u == nil || err != nil {
		review.Status.Error = utilerrors.NewAggregate(append([]error{errNoBearer}, single(err)...)).Error()
		return review, nil
	}
	review.Status.Authenticated = true
	review.Status.Audiences = audiences
	review.Status.User = userInfo(u.Name, u.UID, u.Groups, u.Extra)
	return review, nil
}

// errNoBearer is the first part of Kubernetes' error for unknown tokens.
const errNoBearer = kind.Refusal("invalid bearer token")

// single returns the errors that were joined.
func single(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

// reviewSelf returns the user of the request.
func reviewSelf(_ context.Context, _ *resource.Store, r *resource.Request, _ *authenticationv1.SelfSubjectReview) (*authenticationv1.SelfSubjectReview, error) {
	if r.User == nil {
		return nil, apierrors.NewBadRequest("no user present on request")
	}
	return &authenticationv1.SelfSubjectReview{
		ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(time.Now())},
		Status:     authenticationv1.SelfSubjectReviewStatus{UserInfo: userInfo(r.User.GetName(), r.User.GetUID(), r.User.GetGroups(), r.User.GetExtra())},
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
