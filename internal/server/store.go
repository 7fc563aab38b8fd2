package server

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/housekeeping/bootstrap"
	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/encryption"
	"github.com/kapok-dev/kapok/internal/journal/etcd"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/journal/pebble"
	"github.com/kapok-dev/kapok/internal/kinds"
	"github.com/kapok-dev/kapok/internal/kinds/versions"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/pki"
	"github.com/kapok-dev/kapok/internal/state"

	"github.com/cockroachdb/pebble/v2/vfs"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// store is the state of a server and the journal behind it. It owns the goroutine that watches the
// configuration of encryption, and that configuration.
type store struct {
	options Options
	journal journal.Journal
	state   *state.State
	sealer  *encryption.Config // nil if stored objects are not encrypted
	shared  bool               // other servers write to the journal, too
	root    []byte             // the authority that these servers share; nil if there are none
	// signingKey is the key with which all of them sign tokens of service accounts; nil if there are
	// none.
	signingKey []byte

	closers closers
}

// openStore opens the store that the options select: an etcd, the data directory, or an empty store
// in memory.
func openStore(ctx context.Context, opts Options, journals Journals) (_ *store, err error) {
	s := &store{options: opts}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if err := s.encryption(ctx, opts); err != nil {
		return nil, err
	}
	switch {
	case opts.Store != "":
		err = s.openEtcd(ctx, opts)
	case opts.DataDir != "":
		err = s.openPebble(opts, journals.Pebble)
	default:
		err = s.openMemory(opts, journals.Memory)
	}
	if s.journal != nil { // also if a shared key could not be read
		s.closers.add(s.journal.Close)
	}
	if err != nil {
		return nil, err
	}
	options := state.Options{HistoryBytes: opts.HistoryMemory}
	if s.inMemory() {
		options.HistoryAge = opts.HistoryAge
	}
	var opened object.Revision
	if s.sealer != nil {
		options.Stale = func(o *object.Object) bool { return sealedBefore(s.sealer.Changed(), opened, o) }
	}
	if s.state, err = state.Open(ctx, s.journal, options); err != nil {
		if errors.Is(err, journal.ErrUnopened) && s.sealer == nil {
			err = fmt.Errorf("%w: set Options.EncryptionConfig to the configuration that it was encrypted with (kapok up --encryption-provider-config FILE)", err)
		}
		return nil, err
	}
	opened = s.state.Revision()
	return s, nil
}

// sealedBefore reports whether an object was written before the configuration of encryption
// changed, and so is not encrypted by it. The configuration changes only while the server runs: an
// object that was written before the start is older, whatever the wall clock showed then.
func sealedBefore(changed time.Time, opened object.Revision, o *object.Object) bool {
	return !changed.IsZero() && (o.Revision <= opened || o.Written.Before(changed))
}

// compact starts to compact the history that the journal keeps. It is a task of housekeeping.
func (s *store) compact() (end func()) {
	if s.inMemory() { // the journal bounds its history in bytes, and the state in time
		return func() {}
	}
	policy := journal.Policy{Keep: s.options.HistoryAge, KeepBytes: s.options.HistoryDisk}
	return journal.StartCompactor(context.Background(), s.state, policy, s.options.Logger).Close
}

func (s *store) inMemory() bool {
	switch s.journal.(type) {
	case *memory.Journal, *memory.Kept:
		return true
	}
	return false
}

// encryption loads the configuration that encrypts stored objects, if there is one.
func (s *store) encryption(ctx context.Context, opts Options) (err error) {
	if opts.EncryptionConfig == "" {
		return nil
	}
	if s.sealer, err = encryption.Load(ctx, opts.EncryptionConfig, kinds.Paths(), opts.Logger); err != nil {
		return err
	}
	s.closers.do(s.sealer.Close)
	s.closers.do(background(s.sealer.Watch))
	return nil
}

// openMemory opens a store that ends with the server, or, unless it is nil, kept.
func (s *store) openMemory(opts Options, kept *memory.Store) error {
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

// hosts returns the names and addresses for the certificate of a server that listens on a host: its
// own, those that the options add, and the address of the service kubernetes, which clients in the
// cluster use.
func (s *store) hosts(listen string) []string {
	hosts := append(pki.Hosts(listen), s.options.Serving.Names...)
	if at := s.options.AdvertiseAddress; at.IsValid() {
		hosts = append(hosts, at.String())
	}
	key := object.Key{Resource: schema.GroupResource{Resource: "services"}, Namespace: metav1.NamespaceDefault, Name: "kubernetes"}
	if o, _ := s.state.Get(key); o != nil {
		if tree, err := o.Tree(); err == nil {
			address, _, _ := unstructured.NestedString(tree, "spec", "clusterIP")
			if ip, err := netip.ParseAddr(address); err == nil {
				return append(hosts, ip.String())
			}
		}
	}
	// The start creates a missing service with the first address of the range.
	return append(hosts, bootstrap.KubernetesAddress(s.options.ServiceAddresses).String())
}

func (s *store) openPebble(opts Options, options pebble.Options) error {
	if err := os.MkdirAll(opts.DataDir, 0o700); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	options.Dir, options.Logger, options.Unsynced = filepath.Join(opts.DataDir, "journal"), opts.Logger, opts.UnsafeNoFsync
	options.Progress, options.Archive = opts.Progress, opts.Archive
	if s.sealer != nil {
		options.Sealer = s.sealer
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

// lockDataDir keeps other servers out of the data directory if the journal, being elsewhere, does
// not.
func (s *store) lockDataDir(dir string) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	lock, err := vfs.Default.Lock(filepath.Join(dir, "LOCK"))
	if err != nil {
		return fmt.Errorf("another kapok is running on data directory %s: stop it, or choose another directory: %w", dir, err)
	}
	s.closers.add(lock.Close)
	return nil
}

func (s *store) openEtcd(ctx context.Context, opts Options) error {
	options, err := opts.etcd()
	if err != nil {
		return err
	}
	if err := s.lockDataDir(opts.DataDir); err != nil {
		return err
	}
	options.Progress = opts.Progress
	if s.sealer != nil {
		options.Sealer = s.sealer.Under(options.Prefix)
	}
	j, err := etcd.Open(ctx, options)
	if err != nil && options.TLS == nil && strings.Contains(err.Error(), "server preface") {
		err = fmt.Errorf("%w (etcd may require TLS: set Options.Etcd.CAFile to the certificate of its authority)", err)
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

// etcd returns the options of the journal on the etcd of Store.
func (o *Options) etcd() (etcd.Options, error) {
	options, err := o.Etcd.Options(o.Store)
	options.Logger, options.Paths, options.Decode = o.Logger, kinds.Paths(), versions.DecodeProtobuf
	return options, err
}

func (s *store) close() error { return s.closers.close() }
