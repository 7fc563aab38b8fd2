package authn

import (
	"context"
	"crypto/x509"
	"errors"
	"sync"
	"time"
)

// connection is the cached state of a client's connection.
type connection struct {
	inProcess bool
	certified verification // of its certificate as a user
	fronted   verification // of its certificate as a front proxy
}

// retryRefused is the time after which a rejected certificate is verified again.
const retryRefused = 10 * time.Second

// verification verifies the certificate of a connection and caches the result.
//
// Verification costs more than most requests, and precedes all limits on the client. So requests of
// a connection share it: one verifies, and the others wait for its result. An accepted certificate
// is verified again only if the trusted authorities change; each request checks its expiry. A
// rejected one is verified again after retryRefused, because the wall clock may have been wrong:
// the error of a chain does not always show that time was the reason.
type verification struct {
	mu   sync.Mutex
	last *verified // nil before the first request with a certificate
}

// verified is the result for the certificate of a connection.
type verified struct {
	by      *x509.CertPool // the authorities it was verified by
	user    *User          // nil if it names no user, or is that of a front proxy
	expires time.Time
	err     error
	at      time.Time
}

// get returns the user of the certificate, given the authorities. It calls verify if the result is
// not cached.
func (v *verification) get(by *x509.CertPool, verify func() (*User, time.Time, error)) (*User, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now() // with a monotonic reading, for the comparison with at
	if l := v.last; l == nil || l.by != by || l.err != nil && now.Sub(l.at) >= retryRefused {
		v.last = &verified{by: by, at: now}
		v.last.user, v.last.expires, v.last.err = verify()
	}
	switch l := v.last; {
	case l.err != nil:
		return nil, l.err
	case time.Now().After(l.expires):
		return nil, errors.New("client certificate has expired")
	default:
		return l.user, nil
	}
}

type connectionKey struct{}

func connectionFrom(ctx context.Context) *connection {
	c, _ := ctx.Value(connectionKey{}).(*connection)
	return c
}

// ConnContext is a function for http.Server.ConnContext of a server with clients outside of the
// process: it adds the cache for the certificate of a connection.
func ConnContext(ctx context.Context) context.Context {
	return context.WithValue(ctx, connectionKey{}, &connection{})
}

// InProcessContext is ConnContext for connections inside the process: without other credentials,
// their requests are the admin's.
func InProcessContext(ctx context.Context) context.Context {
	return context.WithValue(ctx, connectionKey{}, &connection{inProcess: true})
}
