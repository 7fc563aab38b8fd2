package journal

import (
	"errors"

	"github.com/kapok-dev/kapok/internal/object"
)

// A Sealer turns the bytes of objects into what is stored, and back: encryption at
// rest. Its methods are safe for concurrent use. A nil Sealer in the options of a
// journal stores objects as they are.
type Sealer interface {
	// Seal returns what to store for an object under a key. It may return raw
	// itself.
	Seal(key object.Key, raw []byte) ([]byte, error)
	// Open returns the object of what is stored under a key, which may be stored
	// itself. stale says that Seal would store it in another way now: with another
	// key, or encrypted at all. What was stored before there was a Sealer can be
	// opened if its settings allow for that (the identity provider).
	Open(key object.Key, stored []byte) (raw []byte, stale bool, err error)
}

// ErrUnopened is returned where an object cannot be opened by a Sealer, or for want
// of one. It is not damaged: with the right settings it opens.
var ErrUnopened = errors.New("object cannot be decrypted")
