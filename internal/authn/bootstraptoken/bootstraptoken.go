// Package bootstraptoken authenticates bootstrap tokens, with which a new node requests its first
// certificate. A token ID.SECRET is stored in the Secret bootstrap-token-ID of type
// bootstrap.kubernetes.io/token in the namespace kube-system; its user is system:bootstrap:ID in
// the group system:bootstrappers. The behaviour is that of
// k8s.io/kubernetes/plugin/pkg/auth/authenticator/token/bootstrap.
//
// The package reads the state for each token: a deleted or changed Secret takes effect with the
// next request. It starts no goroutine and has no locks.
package bootstraptoken

import (
	"context"
	"crypto/subtle"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/client/typed"
	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/state"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Names in Kubernetes, see k8s.io/cluster-bootstrap/token/api.
const (
	secretType   = "bootstrap.kubernetes.io/token"
	secretPrefix = "bootstrap-token-"
	userPrefix   = "system:bootstrap:"
	// Group is the group of all users with bootstrap tokens.
	Group = "system:bootstrappers"
)

var (
	tokenForm = regexp.MustCompile(`^([a-z0-9]{6})\.([a-z0-9]{16})$`)
	groupForm = regexp.MustCompile(`^system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]$`)
)

// An Authenticator authenticates the tokens in a state. It implements authn.TokenAuthenticator.
type Authenticator struct{ State *state.State }

// AuthenticateToken implements authn.TokenAuthenticator. It ignores tokens of another form, and
// those whose Secret is missing, invalid or expired.
func (a Authenticator) AuthenticateToken(_ context.Context, token string, wanted []string) (*authn.User, []string, error) {
	parts := tokenForm.FindStringSubmatch(token)
	if parts == nil {
		return nil, nil, nil
	}
	id, private := parts[1], parts[2]
	key := object.Key{Resource: schema.GroupResource{Resource: "secrets"}, Namespace: "kube-system", Name: secretPrefix + id}
	o, _ := a.State.Get(key)
	if o == nil {
		return nil, nil, nil
	}
	tree, err := o.Tree()
	if err != nil {
		return nil, nil, fmt.Errorf("bootstrap token %s: %w", id, err)
	}
	var secret corev1.Secret
	if err := typed.FromTree(tree, &secret); err != nil {
		return nil, nil, fmt.Errorf("bootstrap token %s: %w", id, err)
	}
	data := secret.Data
	groups, ok := groupsOf(string(data["auth-extra-groups"]))
	switch {
	case secret.DeletionTimestamp != nil, secret.Type != secretType:
	case subtle.ConstantTimeCompare(data["token-secret"], []byte(private)) != 1:
	case string(data["token-id"]) != id:
	case expired(string(data["expiration"]), time.Now()):
	case string(data["usage-bootstrap-authentication"]) != "true":
	case !ok:
	default:
		return &authn.User{Name: userPrefix + id, Groups: authn.WithAuthenticated(groups)}, wanted, nil
	}
	return nil, nil, nil
}

// expired reports whether a time has passed. A token without a time does not expire, and one with
// an invalid time has expired.
func expired(text string, now time.Time) bool {
	if text == "" {
		return false
	}
	at, err := time.Parse(time.RFC3339, text)
	return err != nil || !now.Before(at)
}

// groupsOf returns the groups of a token, sorted; ok is false if one has an invalid name.
func groupsOf(extra string) (groups []string, ok bool) {
	groups = []string{Group}
	if extra == "" {
		return groups, true
	}
	for group := range strings.SplitSeq(extra, ",") {
		if !groupForm.MatchString(group) {
			return nil, false
		}
		groups = append(groups, group)
	}
	slices.Sort(groups)
	return slices.Compact(groups), true
}
