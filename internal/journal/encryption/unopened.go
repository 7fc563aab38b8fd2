package encryption

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/kapok-dev/kapok/internal/journal"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// UnopenedError is returned by Open for an object that no key decrypts. The object is not damaged:
// the right configuration decrypts it.
type UnopenedError struct {
	Path     string // path in the store
	Resource schema.GroupResource
	File     string // file of the configuration
	Header   string // header of the stored bytes; empty if they are not encrypted
	// Known reports whether the configuration has the provider and the key in the header.
	Known bool
	Err   error // why this provider cannot decrypt it, if it is known
}

// Error names the stored form, what is missing, and the fix.
func (e *UnopenedError) Error() string {
	provider, key, ok := splitHeader(e.Header)
	switch {
	case e.Header == "":
		return fmt.Sprintf("%s is stored unencrypted, and %s does not allow that for %s: add identity as the last provider",
			e.Path, e.File, e.Resource)
	case provider == kms && !ok:
		return fmt.Sprintf("%s is encrypted by a provider of KMS v1, which is not supported: decrypt it where it was written, with identity as the first provider",
			e.Path)
	case provider == kms && e.Known:
		return fmt.Sprintf("%s cannot be decrypted with KMS provider %q of %s: %v", e.Path, key, e.File, e.Err)
	case provider == kms:
		return fmt.Sprintf("%s is encrypted with KMS provider %q, which %s does not have for %s: add the provider after the one that encrypts",
			e.Path, key, e.File, e.Resource)
	case !ok:
		return fmt.Sprintf("%s is encrypted in an unknown format (%q)", e.Path, e.Header)
	case e.Known:
		return fmt.Sprintf("%s cannot be decrypted with %s key %q of %s:"+
			" the secret of the key has changed, or the stored object has been changed or moved", e.Path, provider, key, e.File)
	default:
		return fmt.Sprintf("%s is encrypted with %s key %q, which %s does not have for %s: add the key after the one that encrypts",
			e.Path, provider, key, e.File, e.Resource)
	}
}

// Unwrap makes errors.Is find [journal.ErrUnopened].
func (e *UnopenedError) Unwrap() error { return journal.ErrUnopened }

// headerOf returns the header of an encrypted value, as far as it can be distinguished from
// ciphertext: up to the fifth colon.
func headerOf(stored []byte) string {
	if !bytes.HasPrefix(stored, []byte(reserved)) {
		return ""
	}
	const most = 256 // limit for damaged values
	end := 0
	for range 5 {
		n := bytes.IndexByte(stored[end:min(len(stored), most)], ':')
		if n < 0 {
			return reserved
		}
		end += n + 1
	}
	return string(stored[:end])
}

// splitHeader splits k8s:enc:PROVIDER:v1:KEY:.
func splitHeader(header string) (provider, key string, ok bool) {
	rest, _ := strings.CutPrefix(header, reserved)
	provider, rest, _ = strings.Cut(rest, ":")
	wrote, rest, _ := strings.Cut(rest, ":")
	key, found := strings.CutSuffix(rest, ":")
	switch provider {
	case aescbc, aesgcm, sbox:
		return provider, key, found && wrote == version
	case kms:
		return provider, key, found && wrote == kmsVersion
	}
	return provider, key, false
}
