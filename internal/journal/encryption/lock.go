package encryption

import (
	"bytes"
	"context"

	"github.com/kapok-dev/kapok/internal/object"

	"k8s.io/apiserver/pkg/storage/value"
)

// A chain encrypts and decrypts the objects of a kind: the first lock encrypts, all decrypt. It is
// never empty.
type chain []lock

// A lock is one key of one provider.
type lock struct {
	header string            // prefix of its ciphertexts; empty for identity
	cipher value.Transformer // nil for identity
	least  int               // minimum length of a ciphertext
	bound  bool              // the cipher authenticates the place
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

func (l *lock) seal(at place, raw []byte) ([]byte, error) {
	if l.cipher == nil {
		return raw, nil
	}
	sealed, err := l.cipher.TransformToStorage(context.Background(), raw, at)
	if err != nil {
		return nil, err
	}
	stored := make([]byte, 0, len(l.header)+len(sealed))
	return append(append(stored, l.header...), sealed...), nil
}

// open returns the object that this lock has encrypted, if it belongs at the place.
func (l *lock) open(at place, stored []byte) (raw []byte, ok bool) {
	if l.cipher == nil {
		return stored, true
	}
	sealed := stored[len(l.header):]
	if len(sealed) < l.least { // the library's CBC reads out of bounds without blocks
		return nil, false
	}
	raw, _, err := l.cipher.TransformFromStorage(context.Background(), sealed, at)
	if err != nil {
		return nil, false
	}
	return raw, l.bound || belongs(at.key, raw)
}

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
