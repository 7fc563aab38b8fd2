// Package serviceaccount issues tokens of service accounts, and knows who bears one.
//
// A token is a JSON Web Token in Kubernetes' form. [Issuer.Issue] makes one that is
// good for some audiences and some time, and perhaps only as long as a pod, a secret
// or a node is there; [Issuer.IssueLegacy] one for a secret, which is good as long as
// that has it. [Issuer.AuthenticateToken] believes a token if
//
//   - one of the [Keys] has signed it, with the algorithm of that key and no other,
//   - it comes from one of the issuers, and is for one of the wanted audiences,
//   - its time has begun and has not ended, give or take a minute, and
//   - the account, and the object that it is bound to, are there, with the uids that they had.
//
// The signature is checked once, as long as the token is remembered; all else with
// every request, so that a token ends at once with its account. What is remembered is
// a hash of the token, and whom it names; the token itself is kept nowhere.
//
// [Issuer.Documents] are what others need to check tokens, as OpenID Connect Discovery
// wants it.
//
// An Issuer is safe for concurrent use, and starts no goroutine. Its only lock guards
// what it remembers.
package serviceaccount

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kapok-dev/kapok/internal/state"

	"github.com/go-jose/go-jose/v4/jwt"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// DefaultIssuer is who signs tokens where nobody else is named, and their audience.
const DefaultIssuer = "https://kubernetes.default.svc"

// legacyIssuer is who signs the tokens in secrets.
const legacyIssuer = "kubernetes/serviceaccount"

// Options are what an Issuer is made of.
type Options struct {
	// Keys sign and verify. Required.
	Keys *Keys
	// State has the accounts. Required.
	State *state.State
	// Issuers are those whose tokens hold. New ones are signed by the first. Default: DefaultIssuer.
	Issuers []string
	// Audiences are the names of the API server: who asks for none gets a token for these, and one that is for none of them
	// is no credential here. Default: Issuers.
	Audiences []string
	// MaxLifetime bounds how long new tokens hold. Default: only the validation of requests does.
	MaxLifetime time.Duration
	// Exact ends tokens of pods when they say so. By default those that are asked for by everybody's projected volume hold
	// for a year, as in Kubernetes.
	Exact bool
}

// An Issuer issues tokens, and knows who bears one. Make one with [New].
type Issuer struct {
	opts  Options
	known known
}

// New returns an Issuer.
func New(opts Options) (*Issuer, error) {
	if opts.Keys == nil || opts.State == nil {
		return nil, errors.New("issuer of service account tokens: keys and a state are required")
	}
	if len(opts.Issuers) == 0 {
		opts.Issuers = []string{DefaultIssuer}
	}
	if slices.Contains(opts.Issuers, "") {
		return nil, errors.New("the issuer of service account tokens must not be empty")
	}
	if len(opts.Audiences) == 0 {
		opts.Audiences = opts.Issuers
	}
	return &Issuer{opts: opts}, nil
}

// Issuers are those that tokens may name; the first is that of new ones.
func (i *Issuer) Issuers() []string { return slices.Clone(i.opts.Issuers) }

// Audiences are the names of the API server.
func (i *Issuer) Audiences() []string { return slices.Clone(i.opts.Audiences) }

// Limit returns the lifetime, cut to what is allowed at most.
func (i *Issuer) Limit(lifetime time.Duration) time.Duration {
	if i.opts.MaxLifetime > 0 {
		return min(lifetime, i.opts.MaxLifetime)
	}
	return lifetime
}

// A Ref names an object, and which one of that name it is.
type Ref struct {
	Name string `json:"name,omitempty"`
	UID  string `json:"uid,omitempty"`
}

// A Grant says for whom a token is, and for how long.
type Grant struct {
	Namespace string
	Account   Ref
	// At most one of Pod, Secret and Node is what the token ends with; beside a Pod, Node only says where that is.
	Pod, Secret, Node *Ref
	Audiences         []string
	Lifetime          time.Duration
}

// The lifetime that the kubelet asks for on behalf of pods that asked for nothing in particular, and what they get, so that those who
// do not read their token again have time to learn it.
const (
	projectedLifetime = 3607 * time.Second
	extendedLifetime  = 365 * 24 * time.Hour
)

// Issue makes a token that holds from now on.
func (i *Issuer) Issue(g Grant, now time.Time) (string, error) {
	c := claims{Kubernetes: &kubernetes{Namespace: g.Namespace, Account: g.Account, Pod: g.Pod, Secret: g.Secret, Node: g.Node}}
	lifetime := g.Lifetime
	if g.Pod != nil && lifetime == projectedLifetime && !i.opts.Exact && i.forServer(g.Audiences) {
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

// IssueLegacy makes a token for a secret. It holds as long as the secret has it.
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
	return token, nil
}

// forServer says whether audiences are all names of the API server.
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
	// Webhooks are what tokens may be bound to that Kubernetes issues behind a feature gate. None are issued, nor believed, here.
	Validating *Ref `json:"validatingwebhookconfiguration,omitempty"`
	Mutating   *Ref `json:"mutatingwebhookconfiguration,omitempty"`
}

type legacy struct {
	Namespace  string `json:"kubernetes.io/serviceaccount/namespace,omitempty"`
	Secret     string `json:"kubernetes.io/serviceaccount/secret.name,omitempty"`
	Account    string `json:"kubernetes.io/serviceaccount/service-account.name,omitempty"`
	AccountUID string `json:"kubernetes.io/serviceaccount/service-account.uid,omitempty"`
}
