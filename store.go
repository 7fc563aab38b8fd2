package kapok

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/internal/auth/pki"
	"github.com/kapok-dev/kapok/internal/encryption"
	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/etcd"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/journal/pebble"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/state"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// store is the state of a server and the journal behind it. It owns what watches
// the configuration of encryption.
type store struct {
	options Options
	journal journal.Journal
	state   *state.State
	shared  bool   // other servers write to the journal, too
	root    []byte // what these servers share; nil where there are none
	// signingKey is what all of them sign tokens of service accounts with; nil where there are none.
	signingKey []byte

	lock io.Closer // of the data directory, where the journal has none

	watching sync.WaitGroup
	unwatch  context.CancelFunc
}

// openStore opens what the options name: an etcd, what the data directory holds,
// or an empty store in memory.
func openStore(ctx context.Context, opts Options) (_ *store, err error) {
	s := &store{options: opts}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	sealer, err := s.encryption(ctx, opts)
	if err != nil {
		return nil, err
	}
	switch {
	case opts.Store != "":
		err = s.openEtcd(ctx, opts, sealer)
	case opts.DataDir != "":
		err = s.openPebble(opts, sealer)
	default:
		err = s.openMemory(ctx, opts)
	}
	if err != nil {
		return nil, err
	}
	options := state.Options{HistoryBytes: opts.HistoryMemory}
	if sealer != nil {
		// What was written before the configuration has changed is not sealed by it.
		options.Stale = func(o *object.Object) bool { return o.Written.Before(sealer.Changed()) }
	}
	if s.state, err = state.Open(ctx, s.journal, options); err != nil {
		if errors.Is(err, journal.ErrUnopened) && sealer == nil {
			err = fmt.Errorf("%w; say with which EncryptionConfiguration it was written (kapok up --encryption-provider-config FILE)", err)
		}
		return nil, err
	}
	return s, nil
}

// compact begins to bound the history that the journal keeps. It is a chore.
func (s *store) compact() (end func()) {
	switch s.journal.(type) {
	case *memory.Journal, *memory.Kept: // they see to it themselves
		return func() {}
	}
	policy := journal.Policy{Keep: s.options.HistoryAge, KeepBytes: s.options.HistoryDisk}
	return journal.StartCompactor(context.Background(), s.journal, policy, s.options.Logger).Close
}

// encryption returns what turns objects into what is stored; nil to store them as
// they are.
func (s *store) encryption(ctx context.Context, opts Options) (*encryption.Config, error) {
	if opts.EncryptionConfig == "" {
		return nil, nil
	}
	config, err := encryption.Load(opts.EncryptionConfig)
	if err != nil {
		return nil, err
	}
	for _, warning := range config.Warnings() {
		opts.Logger.Warn(warning)
	}
	ctx, s.unwatch = context.WithCancel(context.WithoutCancel(ctx))
	s.watching.Go(func() { config.Watch(ctx, opts.Logger) })
	return config, nil
}

// openMemory opens a store that ends with the server, or one that a context brings.
func (s *store) openMemory(ctx context.Context, opts Options) error {
	kept := memory.StoreFrom(ctx)
	if kept == nil {
		s.journal = memory.New()
		return nil
	}
	j, err := kept.Open(opts.HistoryMemory)
	if err != nil {
		return err
	}
	s.journal = j
	if s.signingKey, err = kept.Shared(signingKey, pki.NewSigningKey); err != nil || opts.Listen == "" {
		return err
	}
	s.root, err = kept.Shared("root", func() ([]byte, error) { return pki.NewRoot(time.Now()) })
	return err
}

func (s *store) openPebble(opts Options, sealer *encryption.Config) error {
	if err := os.MkdirAll(opts.DataDir, 0o700); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	options := pebble.Options{Dir: filepath.Join(opts.DataDir, "journal"), Logger: opts.Logger, Unsynced: opts.UnsafeNoFsync}
	if sealer != nil {
		options.Sealer = sealer
	}
	j, err := pebble.Open(options)
	if errors.Is(err, journal.ErrLocked) {
		return fmt.Errorf("another kapok is running on data directory %s: stop it, or choose another directory: %w",
			opts.DataDir, err)
	}
	if err == nil {
		s.journal = j
	}
	return err
}

// lockDataDir keeps other servers out of the data directory, where the journal does
// not.
func (s *store) lockDataDir(dir string) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	var err error
	if s.lock, err = vfs.Default.Lock(filepath.Join(dir, "LOCK")); err != nil {
		return fmt.Errorf("another kapok is running on data directory %s: stop it, or choose another directory: %w", dir, err)
	}
	return nil
}

func (s *store) openEtcd(ctx context.Context, opts Options, sealer *encryption.Config) error {
	options, err := opts.etcd()
	if err != nil {
		return err
	}
	if err := s.lockDataDir(opts.DataDir); err != nil {
		return err
	}
	if sealer != nil {
		options.Sealer = sealer.Under(options.Prefix)
	}
	j, err := etcd.Open(ctx, options)
	if err != nil && options.TLS == nil && strings.Contains(err.Error(), "server preface") {
		err = fmt.Errorf("%w (etcd seems to want TLS: name the file of its authority)", err)
	}
	if err != nil {
		return err
	}
	s.journal, s.shared = j, true
	if opts.Accounts.SigningKeyFile == "" {
		if s.signingKey, err = j.Shared(ctx, signingKey, pki.NewSigningKey); err != nil {
			return err
		}
	}
	if opts.Listen == "" {
		return nil
	}
	s.root, err = j.Shared(ctx, "root", func() ([]byte, error) { return pki.NewRoot(time.Now()) })
	return err
}

// etcd turns what the options say of etcd into those of the journal.
func (o *Options) etcd() (etcd.Options, error) {
	const form = `want etcd://HOST:PORT,HOST:PORT, like etcd://127.0.0.1:2379`
	addresses, ok := strings.CutPrefix(o.Store, "etcd://")
	if !ok || addresses == "" || strings.ContainsAny(addresses, "/?#@ ") {
		return etcd.Options{}, fmt.Errorf("store %q: %s", o.Store, form)
	}
	secure, err := o.Etcd.tls()
	if err != nil {
		return etcd.Options{}, err
	}
	scheme := "http"
	if secure != nil {
		scheme = "https"
	}
	options := etcd.Options{
		Prefix: o.Etcd.Prefix, TLS: secure, Username: o.Etcd.Username, Password: o.Etcd.Password, Logger: o.Logger,
	}
	if options.Prefix == "" {
		options.Prefix = "/registry"
	}
	options.Prefix = "/" + strings.Trim(options.Prefix, "/")
	for _, address := range strings.Split(addresses, ",") {
		endpoint := url.URL{Scheme: scheme, Host: address}
		if endpoint.Hostname() == "" || endpoint.Port() == "" {
			return etcd.Options{}, fmt.Errorf("store %q: %s", o.Store, form)
		}
		options.Endpoints = append(options.Endpoints, endpoint.String())
	}
	return options, nil
}

// tls returns nil if nothing is said of it.
func (o *EtcdOptions) tls() (*tls.Config, error) {
	if o.CAFile == "" && o.CertFile == "" && o.KeyFile == "" {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CAFile != "" {
		data, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("etcd CA file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("etcd CA file %s holds no certificate in PEM", o.CAFile)
		}
	}
	if o.CertFile == "" && o.KeyFile == "" {
		return config, nil
	}
	if o.CertFile == "" || o.KeyFile == "" {
		return nil, errors.New("a client certificate for etcd needs both its file and that of its key")
	}
	// Read for each connection: certificates are renewed while the server runs.
	load := func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
		return &pair, err
	}
	if _, err := load(); err != nil {
		return nil, fmt.Errorf("etcd client certificate: %w", err)
	}
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	return config, nil
}

func (s *store) close() error {
	var err error
	if s.journal != nil {
		err = s.journal.Close()
	}
	if s.unwatch != nil {
		s.unwatch()
	}
	s.watching.Wait()
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
	}
	return err
}
