// Package encryption encrypts the objects of selected kinds in the store, according to a file with
// Kubernetes' EncryptionConfiguration.
//
// # Format
//
// [Config.Seal] returns, byte for byte, what kube-apiserver writes to etcd under the same
// configuration: a header with provider and key, like "k8s:enc:secretbox:v1:key1:", and the
// encrypted object. Each program reads what the other has written. The first key of the first
// provider encrypts; all keys of all providers decrypt. An object that the first key has not
// encrypted is stale. Kinds that the file does not name are stored unencrypted.
//
// # KMS
//
// A KMS provider keeps its keys in a plugin, another process on the machine, and encrypts objects
// with a seed that the plugin has encrypted. It follows the rules of kube-apiserver: a check of the
// plugin each minute confirms that the seed is encrypted with the plugin's current key; otherwise,
// another seed takes its place. A seed encrypts for three minutes after the last confirmation.
// Seal never calls a plugin. Open does for a seed that it has not seen before, and waits for at
// most the timeout of the provider; after a call without response, it fails at once for ten
// seconds.
//
// # Promises
//
// Encrypted bytes are never returned as an object: if no key decrypts them, [Config.Open] returns
// an [UnopenedError], which names the provider and key of the stored bytes, and what is missing to
// decrypt them. The provider aesgcm authenticates the key of the object in the store. For the
// others, the name and namespace of the decrypted object are compared with those of its key, which
// detects wrong keys, and values that were moved, except to the same name in another kind or under
// another prefix. Only aescbc does not detect changes to bytes in the middle, as in kube-apiserver.
//
// # Goroutines and locks
//
// A Config owns a goroutine and a connection for each KMS provider, until [Config.Close]. The
// caller runs [Config.Watch] in a goroutine of its own, and waits for it before Close. The content
// of the file is an immutable value behind an atomic pointer: Seal and Open take no locks, and all
// methods are safe for concurrent use.
package encryption

import (
	"context"
	"fmt"
	"log/slog"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/reload"
)

// Registry is the prefix under which a Config itself encrypts: kube-apiserver's default, and that
// of journals that have no prefixes.
const Registry = "/registry"

// Config is a loaded configuration. It is the journal.Sealer of a journal under the prefix
// Registry; Under returns that of others.
type Config struct {
	file    string
	paths   *object.Paths
	log     *slog.Logger
	dial    dialer
	source  *reload.File // for Watch
	current atomic.Pointer[settings]
	changed atomic.Pointer[time.Time] // nil until another file is loaded
}

var _ journal.Sealer = (*Config)(nil)

// Load reads and validates the file of an EncryptionConfiguration. It rejects what kube-apiserver
// rejects, with the same messages, and version 1 of KMS. Ciphertexts are bound to the paths of
// objects. Warnings about settings that are probably mistakes are logged. Load waits for each KMS
// plugin until its timeout or until ctx is done. Like kube-apiserver, it does not fail if a plugin
// is not healthy: that is logged, and Seal and Open fail until it is.
func Load(ctx context.Context, file string, paths *object.Paths, log *slog.Logger) (*Config, error) {
	return load(ctx, file, paths, log, dial)
}

func load(ctx context.Context, file string, paths *object.Paths, log *slog.Logger, dial dialer) (_ *Config, err error) {
	c := &Config{file: file, paths: paths, log: log, dial: dial}
	if c.source, err = reload.Open(ctx, "encryption configuration", c.load, file); err != nil {
		return nil, err
	}
	return c, nil
}

// Close ends the connections with KMS plugins. It must be called after Watch has returned; objects
// that need a plugin can no longer be encrypted or decrypted.
func (c *Config) Close() { c.current.Load().closeUnless(&settings{}) }

// Health returns an error if a KMS plugin is not healthy. It may wait for all plugins, each until
// twice its timeout.
func (c *Config) Health() error {
	for {
		s := c.current.Load()
		// A provider that is closed meanwhile is not healthy.
		if err := s.health(); err == nil || c.current.Load() == s {
			return err
		}
	}
}

// Ready implements journal.Sealer.
func (c *Config) Ready(key object.Key) error { return c.ready(place{Registry, key, c.paths}) }

// Seal implements journal.Sealer.
func (c *Config) Seal(key object.Key, raw []byte) ([]byte, error) {
	return c.seal(place{Registry, key, c.paths}, raw)
}

// Open implements journal.Sealer.
func (c *Config) Open(key object.Key, stored []byte) (raw []byte, stale bool, err error) {
	return c.open(place{Registry, key, c.paths}, stored)
}

// Under returns the Sealer of a journal that keeps objects under another prefix, as with
// kube-apiserver's flag --etcd-prefix. It follows changes of the Config.
func (c *Config) Under(prefix string) journal.Sealer {
	return under{c, strings.TrimSuffix(path.Join("/", prefix), "/")}
}

type under struct {
	config *Config
	prefix string
}

func (u under) Ready(key object.Key) error {
	return u.config.ready(place{u.prefix, key, u.config.paths})
}

func (u under) Seal(key object.Key, raw []byte) ([]byte, error) {
	return u.config.seal(place{u.prefix, key, u.config.paths}, raw)
}

func (u under) Open(key object.Key, stored []byte) (raw []byte, stale bool, err error) {
	return u.config.open(place{u.prefix, key, u.config.paths}, stored)
}

func (c *Config) ready(at place) error {
	if err := c.current.Load().chain(at.key.Resource)[0].ready(); err != nil {
		return fmt.Errorf("encrypt %s: %w", at.path(), err)
	}
	return nil
}

func (c *Config) seal(at place, raw []byte) ([]byte, error) {
	sealed, err := c.current.Load().chain(at.key.Resource)[0].seal(at, raw)
	if err != nil {
		return nil, fmt.Errorf("encrypt %s: %w", at.path(), err)
	}
	return sealed, nil
}

func (c *Config) open(at place, stored []byte) (raw []byte, stale bool, err error) {
	for {
		s := c.current.Load()
		raw, stale, err := c.openWith(s, at, stored)
		// A provider that was closed meanwhile cannot decrypt.
		if err == nil || c.current.Load() == s {
			return raw, stale, err
		}
	}
}

func (c *Config) openWith(s *settings, at place, stored []byte) (raw []byte, stale bool, err error) {
	var tried *lock
	var why error
	chain := s.chain(at.key.Resource)
	for i := range chain {
		l := &chain[i]
		if !l.wrote(stored) {
			continue
		}
		// Several keys may have the same name: try the next one after a failure.
		raw, stale, err := l.open(at, stored)
		if err == nil {
			return raw, stale || i > 0, nil
		}
		tried, why = l, err
	}
	refused := &UnopenedError{Path: at.path(), Resource: at.key.Resource, File: c.file, Header: headerOf(stored)}
	if tried != nil {
		refused.Header, refused.Known, refused.Err = tried.header, true, why
	}
	return nil, false, refused
}
