package encryption

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/kapok-dev/kapok/internal/journal"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// UnopenedError is returned by Open for an object that no key opens. The object is
// as good as it was: with the right configuration it opens.
type UnopenedError struct {
	Path     string // where it is stored
	Resource schema.GroupResource
	File     string // of the configuration
	Header   string // what stands in front of it; empty if it is not encrypted
	// Known says that the configuration has the provider and the key that the
	// header names.
	Known bool
}

// Error says what is there, what is missing, and what to do.
func (e *UnopenedError) Error() string {
	provider, key, ok := splitHeader(e.Header)
	switch {
	case e.Header == "":
		return fmt.Sprintf("%s is stored unencrypted, and %s does not allow that for %s: add the provider identity behind the others",
			e.Path, e.File, e.Resource)
	case provider == "kms":
		return fmt.Sprintf("%s is encrypted by a KMS provider, which is not supported: decrypt it where it was written, with identity as the first provider",
			e.Path)
	case !ok:
		return fmt.Sprintf("%s is encrypted in a way that is not known (%q)", e.Path, e.Header)
	case e.Known:
		return fmt.Sprintf("%s is encrypted with %s key %q, and that key of %s does not open it:"+
			" the secret of the key is another one than then, or what is stored has been changed or moved", e.Path, provider, key, e.File)
	default:
		return fmt.Sprintf("%s is encrypted with %s key %q, which %s does not have for %s: add that key behind the key that writes",
			e.Path, provider, key, e.File, e.Resource)
	}
}

// Unwrap makes errors.Is find [journal.ErrUnopened].
func (e *UnopenedError) Unwrap() error { return journal.ErrUnopened }

// headerOf returns what stands in front of an encrypted value, as far as it can be
// told from what was encrypted: up to the fifth colon.
func headerOf(stored []byte) string {
	if !bytes.HasPrefix(stored, []byte(reserved)) {
		return ""
	}
	const most = 256 // of damaged values
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

// splitHeader reads k8s:enc:PROVIDER:v1:KEY:.
func splitHeader(header string) (provider, key string, ok bool) {
	rest, _ := strings.CutPrefix(header, reserved)
	provider, rest, _ = strings.Cut(rest, ":")
	wrote, rest, _ := strings.Cut(rest, ":")
	key, found := strings.CutSuffix(rest, ":")
	switch provider {
	case aescbc, aesgcm, sbox:
		return provider, key, found && wrote == version
	}
	return provider, key, false
}
