package journal

import (
	"errors"

	"github.com/kapok-dev/kapok/internal/object"
)

// A Sealer encrypts objects at rest: it converts the bytes of objects to their stored form and
// back. Its methods are safe for concurrent use. With a nil Sealer in its options, a journal stores
// objects unencrypted.
type Sealer interface {
	// Ready returns an error if Seal would fail now. A journal that commits several batches at once
	// calls it before, so that one batch does not fail the others.
	Ready(key object.Key) error
	// Seal returns the stored form of an object. It may return raw itself.
	Seal(key object.Key, raw []byte) ([]byte, error)
	// Open is the inverse of Seal. It may return stored itself. stale reports that Seal would now
	// store the object differently: with another key, or encrypted at all. Objects that were stored
	// without a Sealer can be opened if the settings allow it (the identity provider). Open may wait
	// for another process, for a limited time; Ready and Seal do not.
	Open(key object.Key, stored []byte) (raw []byte, stale bool, err error)
}

// ErrUnopened is returned if an object cannot be decrypted by the Sealer, or if there is no Sealer.
// The object is not damaged: it can be read with the right settings.
var ErrUnopened = errors.New("object cannot be decrypted")
