package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/kapok-dev/kapok/internal/aggregate"
	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/housekeeping"
	"github.com/kapok-dev/kapok/internal/pki"
	"github.com/kapok-dev/kapok/internal/resource"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// AggregationOptions configure aggregated API servers (APIService), and proxies in front of the
// server. Zero values mean the defaults.
type AggregationOptions struct {
	// ProxyClientCertFile and ProxyClientKeyFile are files in PEM with the client certificate that
	// authenticates this server to aggregated servers, and its key. They are read for each connection.
	// Default: a certificate of an authority of its own, which is published for the aggregated
	// servers; none without a socket.
	ProxyClientCertFile, ProxyClientKeyFile string
	// RequestHeader configures authentication by the headers of proxies in front of the server.
	// Default: no proxy is trusted.
	RequestHeader authn.RequestHeaderOptions
	// Dial opens connections to aggregated servers, with network "tcp" and address HOST:PORT. In a
	// bubble it must open them in memory, since the clock of a bubble stands still while a connection
	// of the operating system is open. Default: connections of the operating system.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Handlers serve group versions in this process, such as the metrics of simulated nodes: the paths
	// below /apis/GROUP/VERSION, with the discovery document at their root, and OpenAPI documents as
	// an API server has them. Requests are authorized, and reach the handler in memory, without TLS;
	// their X-Remote headers name the user. An APIService that names a service for the group version
	// takes precedence. Servers that share a Store must have the same group versions. Stop waits until
	// the handlers have returned from all requests. Default: none.
	Handlers map[schema.GroupVersion]http.Handler
}

// Validate returns an error if the files cannot be used, a header is empty, or a handler is nil.
func (o *AggregationOptions) Validate() error {
	for gv, handler := range o.Handlers {
		if gv.Group == "" || gv.Version == "" || handler == nil {
			return fmt.Errorf("Options.Aggregation.Handlers[%s]: group, version and handler must be set", gv)
		}
	}
	if (o.ProxyClientCertFile == "") != (o.ProxyClientKeyFile == "") {
		return fmt.Errorf("Options.Aggregation.ProxyClientCertFile is %q and ProxyClientKeyFile is %q: set both or neither", o.ProxyClientCertFile, o.ProxyClientKeyFile)
	}
	if o.ProxyClientCertFile != "" {
		if _, err := tls.LoadX509KeyPair(o.ProxyClientCertFile, o.ProxyClientKeyFile); err != nil {
			return fmt.Errorf("Options.Aggregation.ProxyClientCertFile and ProxyClientKeyFile: %w", err)
		}
	}
	if err := o.RequestHeader.Validate(); err != nil || o.RequestHeader.ClientCAFile == "" {
		return err
	}
	_, _, err := readAuthorities(o.RequestHeader.ClientCAFile)
	return err
}

// readAuthorities reads certificates in PEM.
func readAuthorities(file string) (*x509.CertPool, []byte, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, fmt.Errorf("Options.Aggregation.RequestHeader.ClientCAFile: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, nil, fmt.Errorf("Options.Aggregation.RequestHeader.ClientCAFile is %q: the file holds no certificate in PEM", file)
	}
	return pool, data, nil
}

// proxying is the client certificate of the server for aggregated servers, and the authorities with
// which they verify it.
type proxying struct {
	certificate aggregate.ClientCertificate // nil for none
	trust       *aggregate.Trust            // nil if nothing is published
	dial        func(ctx context.Context, network, address string) (net.Conn, error)
}

// proxying prepares the client certificate for aggregated servers, and the authentication of
// proxies in front of the server. out is nil without a socket.
func (o *AggregationOptions) proxying(dataDir string, out *socket, authenticator *authn.Authenticator) (*proxying, error) {
	p := &proxying{dial: o.Dial}
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
		ClientCA: out.authorityPEM(), AllowedNames: h.AllowedNames,
		UsernameHeaders: h.UsernameHeaders, UIDHeaders: h.UIDHeaders, GroupHeaders: h.GroupHeaders, ExtraPrefixes: h.ExtraHeadersPrefix,
	}
	if h.ClientCAFile != "" {
		pool, pem, err := readAuthorities(h.ClientCAFile)
		if err != nil {
			return nil, err
		}
		p.trust.ProxyCA = pem
		out.inviteProxies(pem)
		authenticator.Behind(&authn.FrontProxy{RequestHeaderOptions: *h, Authorities: pool})
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

// tell publishes the authorities with which aggregated servers authenticate requests of this
// server.
func (p *proxying) tell(ctx context.Context, store *resource.Store) error {
	if p == nil || p.trust == nil {
		return nil
	}
	if err := aggregate.Publish(ctx, store, p.trust); err != nil {
		return fmt.Errorf("publish what aggregated servers need to authenticate this server: %w", err)
	}
	return nil
}

// reach returns the options of connections to aggregated servers.
func (p *proxying) reach(store *resource.Store, log *slog.Logger) aggregate.Options {
	o := aggregate.Options{Store: store, Logger: log}
	if p != nil {
		o.ClientCertificate, o.Dial = p.certificate, p.dial
	}
	return o
}

// serveInside serves handlers in this process until close, and adds them to the options.
func serveInside(handlers map[schema.GroupVersion]http.Handler, log *slog.Logger, reach *aggregate.Options) (close func()) {
	if len(handlers) == 0 {
		return func() {}
	}
	own := serveServices(func(group, version string) http.Handler {
		return handlers[schema.GroupVersion{Group: group, Version: version}]
	}, log)
	reach.Inside = map[schema.GroupVersion]func(context.Context) (net.Conn, error){}
	for gv := range handlers {
		reach.Inside[gv] = own.find(gv.Group, gv.Version)
	}
	return own.close
}

// registrations returns the tasks that update APIServices: those of this server, and the status of
// those of others.
func registrations(ctx context.Context, store *resource.Store, reach aggregate.Options) []housekeeping.Task {
	keep := func(what string, start func() (interface{ Close() }, error)) housekeeping.Task {
		return func() func() {
			running, err := start()
			if err != nil {
				reach.Logger.Error("cannot update APIServices", "of", what, "error", err)
				return func() {}
			}
			return running.Close
		}
	}
	inside := slices.Collect(maps.Keys(reach.Inside))
	return []housekeeping.Task{
		keep("this server", func() (interface{ Close() }, error) { return aggregate.StartLocals(ctx, store, inside, reach.Logger) }),
		keep("others", func() (interface{ Close() }, error) { return aggregate.StartProbes(reach) }),
	}
}
