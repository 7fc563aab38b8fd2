// Package filters has filters for the metrics server of a manager.
package filters

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/manager/metricsserver"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
)

// How long an answer of the API server is good for, and how long it may take.
const (
	tokenTTL = time.Minute
	allowTTL = 5 * time.Minute
	denyTTL  = 30 * time.Second
	patience = 10 * time.Second
)

// WithAuthenticationAndAuthorization returns a Filter that asks the API server about each request:
// a TokenReview of the bearer token, and a SubjectAccessReview of the path and the method in lower
// case as non-resource URL and verb. Without a token that the server knows the answer is 401,
// without the permission 403, and 500 if the server does not answer within 10 s. Users are kept for
// a minute, permissions for 5 minutes, refusals for 30 seconds.
//
// The manager needs the permission to create tokenreviews.authentication.k8s.io and
// subjectaccessreviews.authorization.k8s.io. A client that reads metrics needs a ClusterRole with
// nonResourceURLs ["/metrics"] and verbs ["get"].
func WithAuthenticationAndAuthorization(cfg *rest.Config, hc *http.Client) (metricsserver.Filter, error) {
	authentication, err := authenticationclient.NewForConfigAndClient(cfg, hc)
	if err != nil {
		return nil, err
	}
	authorization, err := authorizationclient.NewForConfigAndClient(cfg, hc)
	if err != nil {
		return nil, err
	}
	return func(logger logr.Logger, next http.Handler) (http.Handler, error) {
		return &filter{
			logger: logger, next: next,
			tokens:  authentication.TokenReviews(),
			access:  authorization.SubjectAccessReviews(),
			users:   newAnswers[[sha256.Size]byte, user](),
			allowed: newAnswers[[sha256.Size]byte, decision](),
		}, nil
	}, nil
}

// A user is the user of a token; nil if the token is invalid.
type user = *authenticationv1.UserInfo

type decision struct {
	allowed bool
	reason  string
}

type filter struct {
	logger logr.Logger
	next   http.Handler
	tokens authenticationclient.TokenReviewInterface
	access authorizationclient.SubjectAccessReviewInterface

	users   *answers[[sha256.Size]byte, user]     // by hash of the token
	allowed *answers[[sha256.Size]byte, decision] // by hash of token, verb and path
}

func (f *filter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	token := bearerToken(r)
	if token == "" {
		unauthorized(w)
		return
	}
	who, err := f.users.get(ctx, sha256.Sum256([]byte(token)), func() (user, time.Duration, error) { return f.review(ctx, token) })
	switch {
	case err != nil:
		f.logger.Error(err, "Authentication failed")
		http.Error(w, "Authentication failed", http.StatusInternalServerError)
		return
	case who == nil:
		unauthorized(w)
		return
	}
	verb := strings.ToLower(r.Method)
	key := sha256.Sum256([]byte(token + "\x00" + verb + "\x00" + r.URL.Path))
	access, err := f.allowed.get(ctx, key, func() (decision, time.Duration, error) { return f.authorize(ctx, who, verb, r.URL.Path) })
	switch {
	case err != nil:
		f.logger.Error(err, "Authorization failed", "user", who.Username)
		http.Error(w, fmt.Sprintf("Authorization for user %s failed", who.Username), http.StatusInternalServerError)
	case !access.allowed:
		f.logger.V(4).Info("Authorization denied", "user", who.Username, "verb", verb, "path", r.URL.Path, "reason", access.reason)
		http.Error(w, fmt.Sprintf("Authorization denied for user %s", who.Username), http.StatusForbidden)
	default:
		f.next.ServeHTTP(w, r)
	}
}

func unauthorized(w http.ResponseWriter) {
	w.Header().Set("WWW-Authenticate", "Bearer")
	http.Error(w, "Unauthorized", http.StatusUnauthorized)
}

// bearerToken is the token of a request, or "".
func bearerToken(r *http.Request) string {
	scheme, token, _ := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// review asks whose token it is.
func (f *filter) review(ctx context.Context, token string) (user, time.Duration, error) {
	review, err := f.tokens.Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	switch {
	case err != nil:
		return nil, 0, err
	case !review.Status.Authenticated:
		return nil, tokenTTL, nil
	case review.Status.User.Username == "":
		return nil, 0, errors.New("the TokenReview names no user")
	}
	return &review.Status.User, tokenTTL, nil
}

// authorize asks whether a user may do something to a path.
func (f *filter) authorize(ctx context.Context, who user, verb, path string) (decision, time.Duration, error) {
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: who.Username, UID: who.UID, Groups: who.Groups,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: verb, Path: path},
	}
	for key, values := range who.Extra {
		if spec.Extra == nil {
			spec.Extra = make(map[string]authorizationv1.ExtraValue, len(who.Extra))
		}
		spec.Extra[key] = authorizationv1.ExtraValue(values)
	}
	review, err := f.access.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	switch {
	case err != nil:
		return decision{}, 0, err
	case review.Status.Allowed && !review.Status.Denied:
		return decision{allowed: true}, allowTTL, nil
	}
	return decision{reason: review.Status.Reason}, denyTTL, nil
}
