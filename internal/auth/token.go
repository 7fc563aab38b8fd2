package auth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
)

// A TokenAuthenticator knows who bears a token. Implementations are safe for concurrent use.
type TokenAuthenticator interface {
	// AuthenticateToken returns who bears a token, and for which of the wanted audiences it is good; none wanted means
	// those of the API server itself, and tokens that know nothing of audiences are good for all that are wanted. The
	// user is nil, without an error, if the token is of no kind that the authenticator knows; an error says that it is,
	// and why it does not hold.
	AuthenticateToken(ctx context.Context, token string, wanted []string) (u *User, audiences []string, err error)
}

// Tokens asks one TokenAuthenticator after another; the first that knows the bearer counts.
type Tokens []TokenAuthenticator

// AuthenticateToken implements TokenAuthenticator. Errors count if nobody knows the bearer.
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

// AdminToken takes who bears one token for the admin; nobody if it is empty.
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
