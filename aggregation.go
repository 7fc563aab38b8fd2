package kapok

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/aggregate"
	"github.com/kapok-dev/kapok/internal/auth"
	"github.com/kapok-dev/kapok/internal/auth/pki"
	"github.com/kapok-dev/kapok/internal/resource"
)

// AggregationOptions say how the server works together with others that serve groups of their own behind it (APIService),
// and with proxies in front of it. Zero values mean the defaults.
type AggregationOptions struct {
	// ProxyClientCertFile and ProxyClientKeyFile are files in PEM: what the server shows to others in whose name it
	// speaks for its users. They are read for each connection. Default: a certificate of an authority of its own, which it
	// tells the others of; none without a socket.
	ProxyClientCertFile, ProxyClientKeyFile string
	// RequestHeader says which proxies in front of the server are believed who a user is. Default: none is.
	RequestHeader RequestHeaderOptions
}

// RequestHeaderOptions say who may tell the server in headers in whose name requests are made, and in which.
type RequestHeaderOptions struct {
	// ClientCAFile is a file in PEM with the authorities that sign the proxies' client certificates. Without it nobody is
	// believed.
	ClientCAFile string
	// AllowedNames are the common names of certificates that proxies have. Default: all that the authorities sign.
	AllowedNames []string
	// UsernameHeaders, UIDHeaders and GroupHeaders are the headers; ExtraHeadersPrefix what others begin with that say more
	// of a user. Common are X-Remote-User, X-Remote-Uid, X-Remote-Group and X-Remote-Extra-. Default: none.
	UsernameHeaders, UIDHeaders, GroupHeaders, ExtraHeadersPrefix []string
}

// complete refuses what cannot be.
func (o *AggregationOptions) complete() error {
	if (o.ProxyClientCertFile == "") != (o.ProxyClientKeyFile == "") {
		return errors.New("a client certificate of the proxy needs both its file and that of its key")
	}
	if o.ProxyClientCertFile != "" {
		if _, err := tls.LoadX509KeyPair(o.ProxyClientCertFile, o.ProxyClientKeyFile); err != nil {
			return fmt.Errorf("client certificate of the proxy: %w", err)
		}
	}
	return o.RequestHeader.complete()
}

func (o *RequestHeaderOptions) complete() error {
	for name, values := range map[string][]string{
		"allowed names": o.AllowedNames, "user name": o.UsernameHeaders, "UID": o.UIDHeaders, "group": o.GroupHeaders, "extra": o.ExtraHeadersPrefix,
	} {
		for _, value := range values {
			if strings.TrimSpace(value) == "" {
				return fmt.Errorf("request headers of proxies, %s: empty value", name)
			}
		}
	}
	if o.ClientCAFile == "" {
		return nil
	}
	_, _, err := readAuthorities(o.ClientCAFile)
	return err
}

// readAuthorities reads certificates in PEM.
func readAuthorities(file string) (*x509.CertPool, []byte, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, fmt.Errorf("authorities of proxies: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, nil, fmt.Errorf("authorities of proxies: %s holds no certificate in PEM", file)
	}
	return pool, data, nil
}

// proxying is what the server shows other servers, and what they need to know to believe it.
type proxying struct {
	certificate aggregate.ClientCertificate // nil if it shows nothing
	trust       *aggregate.Trust            // nil if nobody is told
}

// proxying prepares what the server shows other servers, and makes it believe those in front of it; out is nil without a
// socket.
func (o *AggregationOptions) proxying(dataDir string, out *outside, authenticator *auth.Authenticator) (*proxying, error) {
	p := &proxying{}
	if o.ProxyClientCertFile != "" {
		p.certificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(o.ProxyClientCertFile, o.ProxyClientKeyFile)
			return &pair, err
		}
	}
	if out == nil {
		return p, nil
	}
	h := &o.RequestHeader
	p.trust = &aggregate.Trust{
		ClientCA: out.credentials.AuthorityPEM(), AllowedNames: h.AllowedNames,
		UsernameHeaders: h.UsernameHeaders, UIDHeaders: h.UIDHeaders, GroupHeaders: h.GroupHeaders, ExtraPrefixes: h.ExtraHeadersPrefix,
	}
	if h.ClientCAFile != "" {
		pool, pem, err := readAuthorities(h.ClientCAFile)
		if err != nil {
			return nil, err
		}
		p.trust.ProxyCA = pem
		out.secure.inviteProxies(pem)
		authenticator.Behind(&auth.FrontProxy{
			Authorities: pool, AllowedNames: h.AllowedNames,
			UsernameHeaders: h.UsernameHeaders, UIDHeaders: h.UIDHeaders, GroupHeaders: h.GroupHeaders, ExtraPrefixes: h.ExtraHeadersPrefix,
		})
	}
	if o.ProxyClientCertFile != "" {
		return p, nil
	}
	dir := ""
	if dataDir != "" {
		dir = filepath.Join(dataDir, "pki")
	}
	own, err := pki.OpenFrontProxy(dir, time.Now())
	if err != nil {
		return nil, err
	}
	p.certificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return own.Certificate(), nil }
	p.trust.Add(own.AuthorityPEM(), pki.FrontProxyName)
	return p, nil
}

// tell writes down what other servers need to know.
func (p *proxying) tell(ctx context.Context, store *resource.Store) error {
	if p == nil || p.trust == nil {
		return nil
	}
	if err := aggregate.Publish(ctx, store, p.trust); err != nil {
		return fmt.Errorf("tell other servers how to know this one: %w", err)
	}
	return nil
}

// reach is how other servers are reached.
func (p *parts) reach(store *resource.Store) aggregate.Options {
	o := aggregate.Options{Store: store, Logger: p.options.Logger}
	if p.proxying != nil {
		o.ClientCertificate = p.proxying.certificate
	}
	return o
}

// registrations keep APIServices in step with what is served here and elsewhere. They are chores.
func (p *parts) registrations(ctx context.Context, store *resource.Store) []chore {
	keep := func(what string, start func() (interface{ Close() }, error)) chore {
		return func() func() {
			running, err := start()
			if err != nil {
				p.options.Logger.Error("cannot keep APIServices", "of", what, "error", err)
				return func() {}
			}
			return running.Close
		}
	}
	return []chore{
		keep("this server", func() (interface{ Close() }, error) { return aggregate.StartLocals(ctx, store, p.options.Logger) }),
		keep("others", func() (interface{ Close() }, error) { return aggregate.StartProbes(p.reach(store)) }),
	}
}
