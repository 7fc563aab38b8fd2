package auth

import (
	"context"
	"crypto/x509"
	"sync"
	"sync/atomic"
	"time"
)

// connection is what is known of a client's connection.
type connection struct {
	inProcess bool
	verified  atomic.Pointer[verified] // nil before the first request with a certificate

	// Until when its certificate is a front proxy's, verified once.
	fronted struct {
		once    sync.Once
		expires time.Time
		err     error
	}
}

// verified is what the certificate of a connection says.
type verified struct {
	by      *x509.CertPool // whom it was verified by
	user    *User          // nil if it names nobody
	expires time.Time
	err     error
}

type connectionKey struct{}

func connectionFrom(ctx context.Context) *connection {
	c, _ := ctx.Value(connectionKey{}).(*connection)
	return c
}

// ConnContext is for http.Server.ConnContext of a server whose clients come from
// outside: it gives a connection a place to remember its certificate.
func ConnContext(ctx context.Context) context.Context {
	return context.WithValue(ctx, connectionKey{}, &connection{})
}

// InProcessContext is ConnContext for connections that were made inside the
// process: without other credentials their requests are the admin's.
func InProcessContext(ctx context.Context) context.Context {
	return context.WithValue(ctx, connectionKey{}, &connection{inProcess: true})
}
