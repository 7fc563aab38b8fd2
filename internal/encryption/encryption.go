// Package encryption keeps the objects of chosen kinds encrypted where they are
// stored, as a file with Kubernetes' EncryptionConfiguration says.
//
// # What is stored
//
// What [Config.Seal] returns is, byte for byte, what kube-apiserver writes to etcd
// under the same configuration: a header with provider and key, like
// "k8s:enc:secretbox:v1:key1:", and what the provider makes of the object. Either
// program reads what the other has written. The first key of the first provider
// writes; all keys of all providers read, and what another than the first one
// has written is stale. Kinds that the file does not mention are stored as they
// are.
//
// # What is promised
//
// An object is opened as what was sealed under its own key, or not at all: an
// [UnopenedError] says what it was stored with and what is missing, and nothing
// that is encrypted is ever returned as an object. The provider aesgcm binds what
// it stores to the place it is stored at. The others do not: what they open must be
// the object that belongs there, by its name and namespace. That uncovers
// values that were moved, and keys that are wrong. Only aescbc cannot tell whether bytes
// in the middle were changed by somebody who can write to the disk; this is
// so in kube-apiserver too.
//
// # Goroutines and locks
//
// The package starts no goroutine: the caller runs [Config.Watch] in one, and waits
// for it. What a file says is an immutable value behind an atomic pointer; there are no
// locks, and all methods are safe for concurrent use.
package encryption

import (
	"fmt"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"
)

// Registry is the prefix that a Config itself seals under: kube-apiserver's
// default, and that of journals that have no prefixes.
const Registry = "/registry"

// Config is a loaded configuration. It is the journal.Sealer of a journal under
// the prefix Registry; Under is for others.
type Config struct {
	file    string
	current atomic.Pointer[settings]
	changed atomic.Pointer[time.Time] // nil until another file is loaded
}

var _ journal.Sealer = (*Config)(nil)

// Load reads and checks the file of an EncryptionConfiguration. It refuses what
// kube-apiserver refuses, in the same words, and KMS providers.
func Load(file string) (*Config, error) {
	s, err := load(file)
	if err != nil {
		return nil, err
	}
	c := &Config{file: file}
	c.current.Store(s)
	return c, nil
}

// Warnings are what is permitted in the file and still looks like a mistake.
func (c *Config) Warnings() []string { return c.current.Load().warnings }

// Seal implements journal.Sealer.
func (c *Config) Seal(key object.Key, raw []byte) ([]byte, error) {
	return c.seal(place{Registry, key}, raw)
}

// Open implements journal.Sealer.
func (c *Config) Open(key object.Key, stored []byte) (raw []byte, stale bool, err error) {
	return c.open(place{Registry, key}, stored)
}

// Under returns the Sealer of a journal that keeps objects under another prefix,
// as kube-apiserver's flag --etcd-prefix has it. It follows the Config when that
// is loaded anew.
func (c *Config) Under(prefix string) journal.Sealer {
	return under{c, strings.TrimSuffix(path.Join("/", prefix), "/")}
}

type under struct {
	config *Config
	prefix string
}

func (u under) Seal(key object.Key, raw []byte) ([]byte, error) {
	return u.config.seal(place{u.prefix, key}, raw)
}

func (u under) Open(key object.Key, stored []byte) (raw []byte, stale bool, err error) {
	return u.config.open(place{u.prefix, key}, stored)
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
		// Several keys may have the same name, so a failure is not the end.
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
