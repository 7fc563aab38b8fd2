package authn

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
)

// A TokenAuthenticator authenticates bearer tokens. Implementations are safe for concurrent use.
type TokenAuthenticator interface {
	// AuthenticateToken returns the user of a token, and those of the wanted audiences that it is
	// valid for. No wanted audiences mean those of the API server itself; tokens without audiences
	// are valid for all wanted ones. u is nil, without an error, if the token is of a kind that the
	// authenticator does not know; it returns an error if it knows the kind and the token is
	// invalid.
	AuthenticateToken(ctx context.Context, token string, wanted []string) (u *User, audiences []string, err error)
}

// Tokens calls one TokenAuthenticator after another, until one accepts the token.
type Tokens []TokenAuthenticator

// AuthenticateToken implements TokenAuthenticator. It returns errors only if no authenticator
// accepts the token.
func (t Tokens) AuthenticateToken(ctx context.Context, token string, wanted []string) (*User, []string, error) {
	var errs []error
	for _, one := range t {
		u, audiences, err := one.AuthenticateToken(ctx, token, wanted)
		if u != nil && err == nil {
			return u, audiences, nil
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return nil, nil, errors.Join(errs...)
}

// AdminToken returns an authenticator that accepts a single token, as the admin's; if it is "", it
// accepts none.
func AdminToken(token string) TokenAuthenticator {
	return adminToken{sum: sha256.Sum256([]byte(token)), set: token != ""}
}

type adminToken struct {
	sum [sha256.Size]byte
	set bool
}

func (a adminToken) AuthenticateToken(_ context.Context, token string, wanted []string) (*User, []string, error) {
	sum := sha256.Sum256([]byte(token))
	if !a.set || subtle.ConstantTimeCompare(sum[:], a.sum[:]) != 1 {
		return nil, nil, nil
	}
	return Admin(), wanted, nil
}
