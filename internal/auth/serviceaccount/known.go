package serviceaccount

import (
	"crypto/sha256"
	"sync"
)

// known are the bearers of the tokens that were seen last, by the hash of the token. It is two maps: those seen since the
// newer one was begun, and those before; when the newer is full the older is forgotten. The zero value is ready.
type known struct {
	mu           sync.Mutex
	newer, older map[[sha256.Size]byte]*bearer
}

// knownSize is how many tokens a map holds.
const knownSize = 4096

func (k *known) get(sum [sha256.Size]byte) *bearer {
	k.mu.Lock()
	defer k.mu.Unlock()
	if b := k.newer[sum]; b != nil {
		return b
	}
	b := k.older[sum]
	if b != nil {
		k.putLocked(sum, b)
	}
	return b
}

func (k *known) put(sum [sha256.Size]byte, b *bearer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.putLocked(sum, b)
}

func (k *known) putLocked(sum [sha256.Size]byte, b *bearer) {
	if k.newer == nil || len(k.newer) >= knownSize {
		k.newer, k.older = map[[sha256.Size]byte]*bearer{}, k.newer
	}
	k.newer[sum] = b
}
