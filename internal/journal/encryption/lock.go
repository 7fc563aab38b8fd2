package encryption

import (
	"bytes"
	"context"
	"errors"

	"github.com/kapok-dev/kapok/internal/object"

	"k8s.io/apiserver/pkg/storage/value"
)

// A chain encrypts and decrypts the objects of a kind: the first lock encrypts, all decrypt. It is
// never empty.
type chain []lock

// A lock is one key of one provider, or all keys of a KMS provider.
type lock struct {
	header   string            // prefix of its ciphertexts; empty for identity
	cipher   value.Transformer // nil for identity
	least    int               // minimum length of a ciphertext
	bound    bool              // the cipher authenticates the place
	provider *provider         // of KMS; nil for others
}

// reserved is the prefix of all encrypted values, whatever the provider.
const reserved = "k8s:enc:"

// identity returns the lock that does not encrypt.
func identity() lock { return lock{} }

// wrote reports whether this lock may have written stored.
func (l *lock) wrote(stored []byte) bool {
	if l.cipher == nil {
		return !bytes.HasPrefix(stored, []byte(reserved))
	}
	return bytes.HasPrefix(stored, []byte(l.header))
}

// ready returns an error if the lock cannot encrypt now.
func (l *lock) ready() error {
	if l.provider == nil {
		return nil
	}
	return l.provider.ready()
}

func (l *lock) seal(at place, raw []byte) ([]byte, error) {
	if l.cipher == nil {
		return raw, nil
	}
	if err := l.ready(); err != nil {
		return nil, err
	}
	return l.sealWith(l.cipher, at, raw)
}

// probe encrypts an object as the latest ones have been, also if the lock is not ready. It returns
// nil if the lock has never been ready.
func (l *lock) probe(at place, raw []byte) ([]byte, error) {
	if l.provider == nil {
		return l.seal(at, raw)
	}
	cipher := l.provider.late()
	if cipher == nil {
		return nil, nil
	}
	return l.sealWith(cipher, at, raw)
}

func (l *lock) sealWith(cipher value.Transformer, at place, raw []byte) ([]byte, error) {
	sealed, err := cipher.TransformToStorage(context.Background(), raw, at)
	if err != nil {
		return nil, err
	}
	stored := make([]byte, 0, len(l.header)+len(sealed))
	return append(append(stored, l.header...), sealed...), nil
}

// open returns the object that this lock has encrypted, if it belongs at the place, and whether the
// lock would now encrypt it with another key.
func (l *lock) open(at place, stored []byte) (raw []byte, stale bool, err error) {
	if l.cipher == nil {
		return stored, false, nil
	}
	sealed := stored[len(l.header):]
	if len(sealed) < l.least { // the library's CBC reads out of bounds without blocks
		return nil, false, errShort
	}
	raw, stale, err = l.cipher.TransformFromStorage(context.Background(), sealed, at)
	if err == nil && !l.bound && !belongs(at.key, raw) {
		err = errElsewhere
	}
	return raw, stale, err
}

var (
	errShort     = errors.New("the ciphertext is too short")
	errElsewhere = errors.New("the decrypted object belongs to another key")
)

// A place is the location of an object in the store, to which some ciphers bind the ciphertext.
type place struct {
	prefix string
	key    object.Key
	paths  *object.Paths
}

var _ value.Context = place{}

func (p place) path() string { return p.prefix + p.paths.Of(p.key) }

// AuthenticatedData implements value.Context.
func (p place) AuthenticatedData() []byte { return []byte(p.path()) }
