package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
)

// DefaultPort is where webhooks are served if nobody says otherwise.
const DefaultPort = 9443

// stopTime is how long requests that are under way may take when the server stops.
const stopTime = time.Minute

// A Server serves webhooks over TLS. A manager runs it.
type Server interface {
	// NeedLeaderElection is false: every replica serves.
	NeedLeaderElection() bool
	// Register serves a handler at a path. What is wrong with the path, as that it is taken, is an error of Start.
	Register(path string, hook http.Handler)
	// Start serves until ctx is done, and then until all requests are answered, for a minute at most. The values of ctx, as its
	// logger, are those of the requests' contexts. It can be called once.
	Start(ctx context.Context) error
	// StartedChecker returns a check whether the server can be reached.
	StartedChecker() func(*http.Request) error
	// WebhookMux knows the paths.
	WebhookMux() *http.ServeMux
}

// Options are the settings of a Server. With zero values it listens at port 9443 of all addresses, with the certificate in
// /tmp/k8s-webhook-server/serving-certs.
type Options struct {
	// Host is the address to listen at. Default: all.
	Host string
	// Port to listen at. Default 9443; less than 0: the server does not listen at all.
	Port int
	// Listener is used instead of Host and Port. The server closes it.
	Listener net.Listener

	// Certificates are made by the program itself: see SelfSigned. The server runs them. Default: those in CertDir.
	Certificates *Certificates
	// CertDir is the directory of the certificate and its key, in PEM. They are read again when they change. Default:
	// k8s-webhook-server/serving-certs in the directory for temporary files.
	CertDir string
	// CertName and KeyName are names of files in CertDir. Default tls.crt and tls.key.
	CertName, KeyName string
	// ClientCAName is a file in CertDir, with the authorities that must have signed the certificates of clients. Default: clients
	// need none.
	ClientCAName string
	// TLSOpts change the configuration of TLS, which is 1.2 at least and has HTTP/2. One that sets GetCertificate or Certificates
	// replaces the certificates above.
	TLSOpts []func(*tls.Config)

	// WebhookMux is what handlers are added to. Default: a mux of its own.
	WebhookMux *http.ServeMux
	// Registerer gets the metrics of the server. Default: none; a DefaultServer is a Collector, too.
	Registerer prometheus.Registerer
}

// A DefaultServer is what NewServer makes. It is a Collector of its Metrics.
type DefaultServer struct {
	*Metrics
	options    Options
	converters Converters

	mu struct {
		sync.Mutex
		wrong     error // with paths, and with metrics
		begun     bool
		listening bool
	}
}

// NewServer makes a server that does not serve yet.
func NewServer(o Options) Server {
	if o.WebhookMux == nil {
		o.WebhookMux = http.NewServeMux()
	}
	if o.Port == 0 {
		o.Port = DefaultPort
	}
	if o.CertDir == "" {
		o.CertDir = filepath.Join(os.TempDir(), "k8s-webhook-server", "serving-certs")
	}
	if o.CertName == "" {
		o.CertName = "tls.crt"
	}
	if o.KeyName == "" {
		o.KeyName = "tls.key"
	}
	s := &DefaultServer{Metrics: NewMetrics(), options: o}
	if o.Registerer != nil {
		s.mu.wrong = o.Registerer.Register(s.Metrics)
	}
	return s
}

// NeedLeaderElection is false: every replica serves.
func (s *DefaultServer) NeedLeaderElection() bool { return false }

// WebhookMux knows the paths.
func (s *DefaultServer) WebhookMux() *http.ServeMux { return s.options.WebhookMux }

// Converters are those of the kinds that the server converts.
func (s *DefaultServer) Converters() *Converters { return &s.converters }

// Register serves a handler at a path, and measures it.
func (s *DefaultServer) Register(path string, hook http.Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { // a mux says so by a panic what is wrong with a path
		if p := recover(); p != nil {
			s.mu.wrong = errors.Join(s.mu.wrong, fmt.Errorf("webhook at %q: %v", path, p))
		}
	}()
	s.options.WebhookMux.Handle(path, s.Instrument(path, hook))
}

// begin marks the server as started, and says what is wrong with it.
func (s *DefaultServer) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.begun {
		return errors.New("the webhook server has been started before")
	}
	s.mu.begun = true
	return s.mu.wrong
}

// Start serves until ctx is done, and then until all requests are answered, for a minute at most.
func (s *DefaultServer) Start(ctx context.Context) error {
	if err := s.begin(); err != nil {
		return err
	}
	log := loggerFrom(ctx).WithName("webhook")
	if s.options.Port < 0 && s.options.Listener == nil {
		log.Info("the webhook server is disabled")
		return nil
	}

	// What the server runs lives as long as requests do.
	inner, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()

	listener := s.options.Listener
	if listener != nil {
		defer listener.Close()
	}
	config, watch, err := s.tls()
	if err != nil {
		return err
	}
	if listener == nil {
		var lc net.ListenConfig
		if listener, err = lc.Listen(ctx, "tcp", s.address()); err != nil {
			return err
		}
	}
	if watch != nil {
		running.Go(func() { watch(logr.NewContext(inner, log)) })
	}

	server := &http.Server{
		Handler:           s.options.WebhookMux,
		BaseContext:       func(net.Listener) context.Context { return inner },
		ErrorLog:          slog.NewLogLogger(logr.ToSlogHandler(log), slog.LevelInfo),
		ReadHeaderTimeout: 32 * time.Second,
		IdleTimeout:       90 * time.Second,
		MaxHeaderBytes:    1 << 20,
	}
	served := make(chan error, 1)
	running.Go(func() { served <- server.Serve(tls.NewListener(listener, config)) })
	s.setListening(true)
	defer s.setListening(false)
	log.Info("serving webhooks", "address", listener.Addr().String())

	select {
	case err := <-served:
		server.Close()
		return fmt.Errorf("serving webhooks: %w", err)
	case <-ctx.Done():
	}
	log.Info("stopping the webhook server")
	patience, cancel := context.WithTimeout(inner, stopTime)
	defer cancel()
	if err := server.Shutdown(patience); err != nil {
		server.Close()
		return fmt.Errorf("stopping the webhook server: %w", err)
	}
	return nil
}

// tls returns the configuration, and what keeps its certificates up to date, if anything has to.
func (s *DefaultServer) tls() (config *tls.Config, watch func(context.Context), err error) {
	config = &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	for _, opt := range s.options.TLSOpts {
		opt(config)
	}
	switch {
	case config.GetCertificate != nil || len(config.Certificates) > 0:
	case s.options.Certificates != nil:
		config.GetCertificate = s.options.Certificates.GetCertificate
		watch = s.options.Certificates.run
	default:
		files, err := newKeyPairFiles(s.inCertDir(s.options.CertName), s.inCertDir(s.options.KeyName))
		if err != nil {
			return nil, nil, err
		}
		config.GetCertificate = files.GetCertificate
		watch = files.run
	}
	if s.options.ClientCAName != "" {
		pem, err := os.ReadFile(s.inCertDir(s.options.ClientCAName))
		if err != nil {
			return nil, nil, fmt.Errorf("the authorities of clients: %w", err)
		}
		config.ClientCAs = x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, nil, fmt.Errorf("the authorities of clients: no certificate in %s", s.inCertDir(s.options.ClientCAName))
		}
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return config, watch, nil
}

func (s *DefaultServer) inCertDir(name string) string {
	return filepath.Join(s.options.CertDir, name)
}

func (s *DefaultServer) address() string {
	return net.JoinHostPort(s.options.Host, strconv.Itoa(s.options.Port))
}

func (s *DefaultServer) setListening(listening bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.listening = listening
}

// StartedChecker returns a check whether the server can be reached: it connects, and wants a certificate to be shown. A Listener
// that is no socket is taken for reachable once the server has started. The request may be nil.
func (s *DefaultServer) StartedChecker() func(*http.Request) error {
	return func(r *http.Request) error {
		network, address := "tcp", s.address()
		if l := s.options.Listener; l != nil {
			network, address = l.Addr().Network(), l.Addr().String()
		} else if s.options.Port < 0 {
			return nil
		}
		s.mu.Lock()
		listening := s.mu.listening
		s.mu.Unlock()
		if !listening {
			return errors.New("the webhook server has not been started yet")
		}
		if network != "tcp" {
			return nil
		}
		ctx := context.Background()
		if r != nil {
			ctx = r.Context()
		}
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		// Nothing is said over the connection: whose certificate it is does not matter here.
		dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
		conn, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return fmt.Errorf("the webhook server is not reachable: %w", err)
		}
		conn.Close()
		return nil
	}
}
