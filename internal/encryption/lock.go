package encryption

import (
	"bytes"
	"context"

	"github.com/kapok-dev/kapok/internal/object"

	"k8s.io/apiserver/pkg/storage/value"
)

// A chain is how the objects of a kind are stored: the first lock writes, all
// read. It is never empty.
type chain []lock

// A lock is one key of one provider.
type lock struct {
	header string            // in front of what it writes; empty for identity
	cipher value.Transformer // nil for identity
	least  int               // bytes that the cipher makes of anything
	bound  bool              // the cipher opens nothing that was sealed at another place
}

// reserved begins everything that is encrypted, whatever with.
const reserved = "k8s:enc:"

// identity is the lock that locks nothing.
func identity() lock { return lock{} }

// wrote says whether it may have been this lock that made stored.
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

// open returns the object of what this lock wrote, if it is one that belongs at
// the place.
func (l *lock) open(at place, stored []byte) (raw []byte, ok bool) {
	if l.cipher == nil {
		return stored, true
	}
	sealed := stored[len(l.header):]
	if len(sealed) < l.least { // the library's CBC reads past what has no blocks
		return nil, false
	}
	raw, _, err := l.cipher.TransformFromStorage(context.Background(), sealed, at)
	if err != nil {
		return nil, false
	}
	return raw, l.bound || belongs(at.key, raw)
}

// A place is where an object is stored, which is what ciphers that can, bind it
// to.
type place struct {
	prefix string
	key    object.Key
}

var _ value.Context = place{}

func (p place) path() string { return p.prefix + p.key.Path() }

// AuthenticatedData implements value.Context.
func (p place) AuthenticatedData() []byte { return []byte(p.path()) }
