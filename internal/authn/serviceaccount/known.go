package serviceaccount

import (
	"crypto/sha256"
	"sync"
)

// known caches the most recently used tokens by their hash. It consists of two maps: when the newer
// one is full, it becomes the older one, which is dropped. The zero value is ready to use.
type known struct {
	mu           sync.Mutex
	newer, older map[[sha256.Size]byte]*bearer
}

// knownSize is the maximum number of tokens in a map.
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
