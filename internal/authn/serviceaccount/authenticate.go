package serviceaccount

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/object"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// AuthenticateToken implements authn.TokenAuthenticator.
func (i *Issuer) AuthenticateToken(ctx context.Context, token string, wanted []string) (*authn.User, []string, error) {
	if strings.Count(token, ".") != 2 {
		return nil, nil, nil
	}
	sum := sha256.Sum256([]byte(token))
	b := i.known.get(sum)
	if b == nil {
		var err error
		if b, err = i.verify(token); b == nil || err != nil {
			return nil, nil, err
		}
		i.known.put(sum, b)
	}
	audiences, err := i.audiences(b, wanted)
	if err != nil {
		return nil, nil, err
	}
	if err := i.holds(ctx, b, token); err != nil {
		return nil, nil, err
	}
	return b.user, audiences, nil
}

// holds returns an error if a token that was signed here is no longer valid.
func (i *Issuer) holds(ctx context.Context, b *bearer, token string) error {
	now := time.Now()
	if b.claims.Kubernetes != nil {
		if err := inTime(&b.claims.Claims, now); err != nil {
			return err
		}
	}
	err := i.there(ctx, b, token, now)
	if err == nil {
		return nil
	}
	// A missing object may be so new that only another server has it.
	if shared, _ := i.opts.State.Sync(ctx); shared {
		err = i.there(ctx, b, token, now)
	}
	return err
}

// there returns an error if an object that the token depends on does not exist.
func (i *Issuer) there(ctx context.Context, b *bearer, token string, now time.Time) error {
	if b.claims.Kubernetes == nil {
		return i.legacyHolds(ctx, &b.claims.legacy, token)
	}
	return i.stillBound(b.claims.Kubernetes, now)
}

// A bearer is the verified content of a token that was signed here. It is immutable.
type bearer struct {
	claims claims
	user   *authn.User
}

// errSignature is Kubernetes' error for an invalid signature.
var errSignature = jose.ErrCryptoFailure

// verify returns the claims of a token with a valid signature; nil without an error if another
// issuer signed it.
func (i *Issuer) verify(token string) (*bearer, error) {
	var header struct {
		Algorithm jose.SignatureAlgorithm `json:"alg"`
		KeyID     string                  `json:"kid"`
		SmallS    bool                    `json:"small-s"`
	}
	var said struct {
		Issuer string `json:"iss"`
	}
	parts := strings.Split(token, ".")
	if !decode(parts[1], &said) || !i.issues(said.Issuer) || !decode(parts[0], &header) {
		return nil, nil
	}
	signature, ok := raw(parts[2])
	if !ok {
		return nil, nil
	}
	keys := i.opts.Keys.named(header.KeyID)
	if len(keys) == 0 {
		return nil, errors.New("invalid signature, no keys found")
	}
	for _, k := range keys {
		b := &bearer{}
		// The algorithm is that of the key, whatever the token claims.
		if header.Algorithm != k.algorithm || header.SmallS && k.twin(signature) {
			continue
		}
		parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{k.algorithm})
		if err != nil {
			return nil, nil
		}
		if parsed.Claims(k.public, &b.claims) != nil {
			continue
		}
		return b, i.complete(b)
	}
	return nil, errSignature
}

// complete checks that the claims of a token that was signed here are consistent, and sets its
// user.
func (i *Issuer) complete(b *bearer) error {
	c := &b.claims
	switch {
	case !i.issues(c.Issuer): // has been checked, but differs if the JSON has a key twice
		return fmt.Errorf("token issuer %q is invalid", c.Issuer)
	case c.Issuer != legacyIssuer:
		if c.Kubernetes == nil {
			c.Kubernetes = &kubernetes{}
		}
		k := c.Kubernetes
		if k.Validating != nil || k.Mutating != nil {
			return errors.New("tokens that are bound to webhooks are not accepted")
		}
		b.user = newUser(k.Namespace, k.Account)
		b.user.Extra = k.extra(c.ID)
		return nil
	}
	c.Kubernetes = nil
	l := &c.legacy
	for _, claim := range []struct{ name, value string }{
		{"sub", c.Subject}, {"namespace", l.Namespace}, {"secretName", l.Secret}, {"serviceAccountName", l.Account}, {"serviceAccountUID", l.AccountUID},
	} {
		if claim.value == "" {
			return fmt.Errorf("%s claim is missing", claim.name)
		}
	}
	if c.Subject != userName(l.Namespace, l.Account) {
		return errors.New("sub claim is invalid")
	}
	b.user = newUser(l.Namespace, Ref{Name: l.Account, UID: l.AccountUID})
	return nil
}

func (i *Issuer) issues(issuer string) bool {
	return issuer == legacyIssuer || slices.Contains(i.opts.Issuers, issuer)
}

// decode reads a part of a token. It accepts only the canonical encoding, so that a token that
// differs in any letter is another token.
func decode(part string, into any) bool {
	data, ok := raw(part)
	return ok && json.Unmarshal(data, into) == nil
}

func raw(part string) ([]byte, bool) {
	if strings.ContainsAny(part, "\r\n") { // which base64 ignores
		return nil, false
	}
	data, err := base64.RawURLEncoding.Strict().DecodeString(part)
	return data, err == nil
}

// audiences returns those of the wanted audiences that a token is for.
func (i *Issuer) audiences(b *bearer, wanted []string) ([]string, error) {
	has := []string(b.claims.Audience)
	if len(has) == 0 { // tokens in secrets have none
		has = i.opts.Audiences
	}
	if len(wanted) == 0 {
		wanted = i.opts.Audiences
	}
	var both []string
	for _, audience := range wanted {
		if slices.Contains(has, audience) {
			both = append(both, audience)
		}
	}
	if len(both) == 0 {
		return nil, fmt.Errorf("token audiences %q is invalid for the target audiences %q", has, wanted)
	}
	return both, nil
}

// inTime returns an error if a token is not valid yet, or has expired. It allows for a clock skew
// of a minute.
func inTime(c *jwt.Claims, now time.Time) error {
	switch err := c.Validate(jwt.Expected{Time: now}); {
	case errors.Is(err, jwt.ErrExpired):
		return errors.New("service account token has expired")
	case errors.Is(err, jwt.ErrNotValidYet):
		return errors.New("service account token is not valid yet")
	case errors.Is(err, jwt.ErrIssuedInTheFuture):
		return errors.New("service account token is issued in the future")
	case err != nil:
		return fmt.Errorf("service account token claims could not be validated: %w", err)
	}
	return nil
}

// stillBound returns an error if the account of a token, or an object that it is bound to, does not
// exist.
func (i *Issuer) stillBound(k *kubernetes, now time.Time) error {
	account := i.object("serviceaccounts", k.Namespace, k.Account.Name)
	switch {
	case account == nil:
		return apierrors.NewNotFound(schema.GroupResource{Resource: "serviceaccounts"}, k.Account.Name)
	case string(account.Meta.UID) != k.Account.UID:
		return fmt.Errorf("service account UID (%s) does not match claim (%s)", account.Meta.UID, k.Account.UID)
	case ended(account, now):
		return fmt.Errorf("service account %s/%s has been deleted", k.Namespace, k.Account.Name)
	}
	if k.Secret != nil {
		if err := i.bound("secret", k.Namespace, k.Secret, now); err != nil {
			return err
		}
	}
	switch {
	case k.Pod != nil:
		return i.bound("pod", k.Namespace, k.Pod, now)
	case k.Node != nil:
		return i.bound("node", "", k.Node, now)
	}
	return nil
}

// bound returns an error if an object that a token is bound to does not exist.
func (i *Issuer) bound(what, namespace string, ref *Ref, now time.Time) error {
	o := i.object(what+"s", namespace, ref.Name)
	switch {
	case o == nil:
		return errInvalidated
	case string(o.Meta.UID) != ref.UID:
		return fmt.Errorf("%s UID (%s) does not match service account %s ref claim (%s)", what, o.Meta.UID, what, ref.UID)
	case ended(o, now):
		return errInvalidated
	}
	return nil
}

var errInvalidated = errors.New("service account token has been invalidated")

// ended reports whether the deletion time of an object has passed. It allows for a clock skew of a
// minute.
func ended(o *object.Object, now time.Time) bool {
	if !o.Meta.Deleting() {
		return false
	}
	tree, err := o.Tree()
	if err != nil {
		return true
	}
	text, _, _ := unstructured.NestedString(tree, "metadata", "deletionTimestamp")
	at, err := time.Parse(time.RFC3339, text)
	return err != nil || at.Before(now.Add(-jwt.DefaultLeeway))
}

// legacyHolds returns an error if the secret no longer contains the token.
func (i *Issuer) legacyHolds(ctx context.Context, l *legacy, token string) error {
	secret := i.object("secrets", l.Namespace, l.Secret)
	if secret == nil || secret.Meta.Deleting() {
		return refusal("Token has been invalidated")
	}
	tree, err := secret.Tree()
	if err != nil {
		return err
	}
	text, _, _ := unstructured.NestedString(tree, "data", "token")
	kept, err := base64.StdEncoding.DecodeString(text)
	if err != nil || subtle.ConstantTimeCompare(kept, []byte(token)) != 1 {
		return refusal("Token does not match server's copy")
	}
	account := i.object("serviceaccounts", l.Namespace, l.Account)
	switch {
	case account == nil:
		return apierrors.NewNotFound(schema.GroupResource{Resource: "serviceaccounts"}, l.Account)
	case account.Meta.Deleting():
		return fmt.Errorf("ServiceAccount %s/%s has been deleted", l.Namespace, l.Account)
	case string(account.Meta.UID) != l.AccountUID:
		return fmt.Errorf("ServiceAccount UID (%s) does not match claim (%s)", account.Meta.UID, l.AccountUID)
	}
	i.noteUse(ctx, secret)
	const mark = "kubernetes.io/legacy-token-invalid-since"
	if secret.Meta.Labels.Get(mark) != "" {
		return fmt.Errorf("the token in secret %s/%s for service account %s/%s has been marked invalid. Use tokens from the TokenRequest API or manually created secret-based tokens, or remove the '%s' label from the secret to temporarily allow use of this token",
			l.Namespace, l.Secret, l.Namespace, l.Account, mark)
	}
	return nil
}

// A refusal is an error with Kubernetes' words, which begin with a capital letter.
type refusal string

func (r refusal) Error() string { return string(r) }

// object returns an object of a core resource; nil if it does not exist.
func (i *Issuer) object(plural, namespace, name string) *object.Object {
	o, _ := i.opts.State.Get(object.Key{Resource: schema.GroupResource{Resource: plural}, Namespace: namespace, Name: name})
	return o
}
