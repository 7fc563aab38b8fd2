// Package serviceaccount issues and authenticates tokens of service accounts.
//
// A token is a JSON Web Token in Kubernetes' form. [Issuer.Issue] returns one that is valid for
// some audiences and a lifetime, and, optionally, only as long as a pod, a secret or a node exists.
// [Issuer.IssueLegacy] returns one for a secret, which is valid as long as the secret contains it.
// [Issuer.AuthenticateToken] accepts a token if
//
//   - one of the [Keys] has signed it, with the algorithm of that key,
//   - it is from one of the issuers, and for one of the wanted audiences,
//   - it is within its lifetime, with a clock skew of at most a minute, and
//   - the account, and the object that it is bound to, exist and have the UIDs in the token.
//
// The signature is verified once, as long as the result is cached; everything else is checked at
// each request, so that a token becomes invalid as soon as its account is deleted. The cache has
// the hash of a token and its claims, but not the token.
//
// [Issuer.Documents] returns what others need to verify tokens, as in OpenID Connect Discovery.
//
// An Issuer is safe for concurrent use, and starts no goroutine. Its only lock guards the cache.
package serviceaccount

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/state"

	"github.com/go-jose/go-jose/v4/jwt"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// DefaultIssuer is the default issuer of tokens, and their default audience.
const DefaultIssuer = "https://kubernetes.default.svc"

// legacyIssuer is the issuer of the tokens in secrets.
const legacyIssuer = "kubernetes/serviceaccount"

// Config are the dependencies of an Issuer, and its options.
type Config struct {
	Options
	// Keys sign and verify. Required.
	Keys *Keys
	// State contains the accounts. Required.
	State *state.State
}

// An Issuer issues and authenticates tokens. Make one with [New].
type Issuer struct {
	opts  Config
	known known

	write      func(ctx context.Context, secret object.Key, uid, date string) error // see OnUse
	writeAfter atomic.Int64                                                         // in Unix nanoseconds
}

// New returns an Issuer for valid options.
func New(c Config) (*Issuer, error) {
	if c.Keys == nil || c.State == nil {
		return nil, errors.New("issuer of service account tokens: keys and a state are required")
	}
	if len(c.Issuers) == 0 {
		c.Issuers = []string{DefaultIssuer}
	}
	if len(c.Audiences) == 0 {
		c.Audiences = c.Issuers
	}
	return &Issuer{opts: c}, nil
}

// Issuers returns the valid issuers of tokens; the first one is that of new tokens.
func (i *Issuer) Issuers() []string { return slices.Clone(i.opts.Issuers) }

// Audiences returns the audiences of the API server.
func (i *Issuer) Audiences() []string { return slices.Clone(i.opts.Audiences) }

// Limit returns the lifetime, or the maximum if that is less.
func (i *Issuer) Limit(lifetime time.Duration) time.Duration {
	if i.opts.MaxTokenExpiration > 0 {
		return min(lifetime, i.opts.MaxTokenExpiration)
	}
	return lifetime
}

// A Ref identifies an object by its name and its UID.
type Ref struct {
	Name string `json:"name,omitempty"`
	UID  string `json:"uid,omitempty"`
}

// A Grant describes a token.
type Grant struct {
	Namespace string
	Account   Ref
	// At most one of Pod, Secret and Node is the object that the token is bound to. With a Pod,
	// Node only names its node.
	Pod, Secret, Node *Ref
	Audiences         []string
	Lifetime          time.Duration
}

// projectedLifetime is the lifetime that kubelets request for pods by default. Such tokens get
// extendedLifetime, as in Kubernetes, because older clients do not read the renewed token.
const (
	projectedLifetime = 3607 * time.Second
	extendedLifetime  = 365 * 24 * time.Hour
)

// Issue returns a token that is valid from now on.
func (i *Issuer) Issue(g Grant, now time.Time) (string, error) {
	c := claims{Kubernetes: &kubernetes{Namespace: g.Namespace, Account: g.Account, Pod: g.Pod, Secret: g.Secret, Node: g.Node}}
	lifetime := g.Lifetime
	if g.Pod != nil && lifetime == projectedLifetime && !i.opts.ExactExpiration && i.forServer(g.Audiences) {
		lifetime, c.Kubernetes.WarnAfter = extendedLifetime, jwt.NewNumericDate(now.Add(lifetime))
	}
	c.Claims = jwt.Claims{
		Issuer:    i.opts.Issuers[0],
		Subject:   userName(g.Namespace, g.Account.Name),
		Audience:  g.Audiences,
		IssuedAt:  jwt.NewNumericDate(now),
		NotBefore: jwt.NewNumericDate(now),
		Expiry:    jwt.NewNumericDate(now.Add(lifetime)),
		ID:        string(uuid.NewUUID()),
	}
	return i.sign(c)
}

// IssueLegacy returns a token for a secret. It is valid as long as the secret contains it.
func (i *Issuer) IssueLegacy(namespace string, account Ref, secret string) (string, error) {
	return i.sign(claims{
		Claims: jwt.Claims{Issuer: legacyIssuer, Subject: userName(namespace, account.Name)},
		legacy: legacy{Namespace: namespace, Secret: secret, Account: account.Name, AccountUID: account.UID},
	})
}

func (i *Issuer) sign(c claims) (string, error) {
	token, err := jwt.Signed(i.opts.Keys.signer).Claims(c).Serialize()
	if err != nil {
		return "", fmt.Errorf("sign token: %w", err)
	}
	return i.opts.Keys.canonical(token), nil
}

// forServer reports whether audiences are all names of the API server.
func (i *Issuer) forServer(audiences []string) bool {
	return !slices.ContainsFunc(audiences, func(a string) bool { return !slices.Contains(i.opts.Audiences, a) })
}

// claims are the payload of a token.
type claims struct {
	jwt.Claims
	Kubernetes *kubernetes `json:"kubernetes.io,omitempty"`
	legacy
}

type kubernetes struct {
	Namespace string           `json:"namespace,omitempty"`
	Account   Ref              `json:"serviceaccount,omitzero"`
	Pod       *Ref             `json:"pod,omitempty"`
	Secret    *Ref             `json:"secret,omitempty"`
	Node      *Ref             `json:"node,omitempty"`
	WarnAfter *jwt.NumericDate `json:"warnafter,omitempty"`
	// Tokens that are bound to webhooks, which Kubernetes issues behind a feature gate, are not
	// issued, and are rejected.
	Validating *Ref `json:"validatingwebhookconfiguration,omitempty"`
	Mutating   *Ref `json:"mutatingwebhookconfiguration,omitempty"`
}

type legacy struct {
	Namespace  string `json:"kubernetes.io/serviceaccount/namespace,omitempty"`
	Secret     string `json:"kubernetes.io/serviceaccount/secret.name,omitempty"`
	Account    string `json:"kubernetes.io/serviceaccount/service-account.name,omitempty"`
	AccountUID string `json:"kubernetes.io/serviceaccount/service-account.uid,omitempty"`
}
