// Package metricsserver serves metrics over HTTP or HTTPS.
package metricsserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"github.com/kapok-dev/kapok/manager/certwatcher"
	"github.com/kapok-dev/kapok/manager/internal/serve"
	"github.com/kapok-dev/kapok/manager/log"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
)

// path is the URL path of the metrics.
const path = "/metrics"

// A Server serves metrics. A manager runs the one of its options.
type Server interface {
	// AddExtraHandler serves something beside /metrics, behind the same Filter. It may be called
	// while the server runs.
	AddExtraHandler(path string, handler http.Handler) error
	// NeedLeaderElection is false: every replica serves.
	NeedLeaderElection() bool
	// Start serves until ctx ends. It can be called once.
	Start(ctx context.Context) error
}

// A Registry is where metrics are registered, and read. A *prometheus.Registry is one.
type Registry interface {
	prometheus.Registerer
	prometheus.Gatherer
}

// Options are the settings of the metrics of a manager, and of their server.
type Options struct {
	// SecureServing serves HTTPS. Default: HTTP.
	SecureServing bool
	// BindAddress is the HOST:PORT that serves metrics. Default, and "0": metrics are not served.
	BindAddress string
	// ExtraHandlers are served beside /metrics, by their paths.
	ExtraHandlers map[string]http.Handler
	// FilterProvider creates the Filter of all requests, such as
	// filters.WithAuthenticationAndAuthorization. Default: every request is served.
	FilterProvider func(*rest.Config, *http.Client) (Filter, error)

	// CertDir, CertName and KeyName are the files of the certificate, in PEM, which are read again
	// when they change. If they do not exist, the certificate is signed by itself, for localhost,
	// and ends with the process. They are not used if TLSOpts set GetCertificate or Certificates.
	// Defaults: k8s-metrics-server/serving-certs in the directory for temporary files, tls.crt,
	// tls.key.
	CertDir, CertName, KeyName string
	// TLSOpts change the configuration of TLS, which is 1.2 at least and has HTTP/2.
	TLSOpts []func(*tls.Config)
	// HandlerOpts change the options of the handler of /metrics.
	HandlerOpts []func(*promhttp.HandlerOpts)
	// ListenConfig creates the listener of the server.
	ListenConfig net.ListenConfig

	// Registry holds the metrics. Default: a new one; that of a manager has the metrics of Go and of
	// the process. Several managers may share one, but only one of them may have a webhook server:
	// manager.New fails for the second, whose metrics could not be registered.
	Registry Registry
}

// A Filter is put before the handlers of a Server, once each time it starts.
type Filter func(logr.Logger, http.Handler) (http.Handler, error)

// NewServer makes a Server, or nil if the options say that metrics are served nowhere. The
// arguments other than the options are those of FilterProvider.
func NewServer(o Options, cfg *rest.Config, hc *http.Client) (Server, error) {
	s, err := newServer(o, cfg, hc)
	if s == nil || err != nil {
		return nil, err
	}
	return s, nil
}

func newServer(o Options, cfg *rest.Config, hc *http.Client) (*server, error) {
	if o.Registry == nil {
		o.Registry = prometheus.NewRegistry()
	}
	s := &server{options: o, mux: http.NewServeMux()}
	handler := promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}
	for _, opt := range o.HandlerOpts {
		opt(&handler)
	}
	s.mux.Handle(path, promhttp.HandlerFor(o.Registry, handler))
	for path, h := range o.ExtraHandlers {
		if err := s.AddExtraHandler(path, h); err != nil {
			return nil, err
		}
	}
	if o.BindAddress == "" || o.BindAddress == "0" {
		return nil, nil
	}
	if o.FilterProvider != nil {
		var err error
		if s.filter, err = o.FilterProvider(cfg, hc); err != nil {
			return nil, fmt.Errorf("filter of the metrics server: %w", err)
		}
	}
	return s, nil
}

type server struct {
	options Options
	filter  Filter // nil: none
	mux     *http.ServeMux
}

func (s *server) NeedLeaderElection() bool { return false }

// AddExtraHandler returns an error for an invalid path, for which a mux panics.
func (s *server) AddExtraHandler(path string, h http.Handler) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("metrics server: handler of %q: %v", path, r)
		}
	}()
	s.mux.Handle(path, h)
	return nil
}

func (s *server) Start(ctx context.Context) error {
	logger := log.FromContext(ctx)
	handler := http.Handler(s.mux)
	if s.filter != nil {
		var err error
		if handler, err = s.filter(logger.WithName("metrics"), handler); err != nil {
			return fmt.Errorf("filter of the metrics server: %w", err)
		}
	}
	listener, err := s.options.ListenConfig.Listen(ctx, "tcp", s.options.BindAddress)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("metrics server: %w", err)
	}
	if !s.options.SecureServing {
		return serve.HTTP(ctx, "metrics", listener, handler, logger)
	}
	config, watch, err := s.tls()
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	var running sync.WaitGroup
	defer running.Wait()
	inner, stop := context.WithCancel(ctx)
	defer stop()
	if watch != nil {
		running.Go(func() { _ = watch.Start(inner) }) // which fails never
	}
	return serve.HTTP(ctx, "metrics", tls.NewListener(listener, config), handler, logger)
}

// tls returns the configuration, and the watcher that keeps its certificate up to date, or nil.
func (s *server) tls() (*tls.Config, *certwatcher.CertWatcher, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	for _, opt := range s.options.TLSOpts {
		opt(config)
	}
	if config.GetCertificate != nil || len(config.Certificates) > 0 {
		return config, nil, nil
	}
	cert, key := s.files()
	watch, err := certwatcher.New(cert, key)
	switch {
	case err == nil:
		config.GetCertificate = watch.GetCertificate
		return config, watch, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, nil, fmt.Errorf("metrics server: %w", err)
	}
	certPEM, keyPEM, err := certutil.GenerateSelfSignedCertKey("localhost", []net.IP{{127, 0, 0, 1}, net.IPv6loopback}, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("metrics server: self-signed certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, nil, fmt.Errorf("metrics server: self-signed certificate: %w", err)
	}
	config.Certificates = []tls.Certificate{pair}
	return config, nil, nil
}

func (s *server) files() (cert, key string) {
	o := s.options
	if o.CertDir == "" {
		o.CertDir = filepath.Join(os.TempDir(), "k8s-metrics-server", "serving-certs")
	}
	if o.CertName == "" {
		o.CertName = "tls.crt"
	}
	if o.KeyName == "" {
		o.KeyName = "tls.key"
	}
	return filepath.Join(o.CertDir, o.CertName), filepath.Join(o.CertDir, o.KeyName)
}
