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
// The package starts no goroutine: the caller runs [Config.Watch] in one, and waits for it. The
// content of the file is an immutable value behind an atomic pointer; there are no locks, and all
// methods are safe for concurrent use.
package encryption

import (
	"context"
	"fmt"
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
	source  *reload.File                   // for Watch
	warn    func(warning string, _ ...any) // receives warnings about files that Watch loads
	current atomic.Pointer[settings]
	changed atomic.Pointer[time.Time] // nil until another file is loaded
}

var _ journal.Sealer = (*Config)(nil)

// Load reads and validates the file of an EncryptionConfiguration. It rejects KMS providers, and
// what kube-apiserver rejects, with the same messages. Ciphertexts are bound to the paths of
// objects.
func Load(file string, paths *object.Paths) (_ *Config, err error) {
	c := &Config{file: file, paths: paths, warn: func(string, ...any) {}}
	if c.source, err = reload.Open(context.Background(), "encryption configuration", c.load, file); err != nil {
		return nil, err
	}
	return c, nil
}

// Warnings returns warnings about valid settings that are probably mistakes.
func (c *Config) Warnings() []string { return c.current.Load().warnings }

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

func (u under) Seal(key object.Key, raw []byte) ([]byte, error) {
	return u.config.seal(place{u.prefix, key, u.config.paths}, raw)
}

func (u under) Open(key object.Key, stored []byte) (raw []byte, stale bool, err error) {
	return u.config.open(place{u.prefix, key, u.config.paths}, stored)
}

func (c *Config) seal(at place, raw []byte) ([]byte, error) {
	sealed, err := c.current.Load().chain(at.key.Resource)[0].seal(at, raw)
	if err != nil {
		return nil, fmt.Errorf("encrypt %s: %w", at.path(), err)
	}
	return sealed, nil
}

func (c *Config) open(at place, stored []byte) (raw []byte, stale bool, err error) {
	var tried *lock
	chain := c.current.Load().chain(at.key.Resource)
	for i := range chain {
		l := &chain[i]
		if !l.wrote(stored) {
			continue
		}
		// Several keys may have the same name: try the next one after a failure.
		if raw, ok := l.open(at, stored); ok {
			return raw, i > 0, nil
		}
		tried = l
	}
	refused := &UnopenedError{Path: at.path(), Resource: at.key.Resource, File: c.file, Header: headerOf(stored)}
	if tried != nil {
		refused.Header, refused.Known = tried.header, true
	}
	return nil, false, refused
}
