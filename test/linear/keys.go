package linear

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
)

// slots are the keys in use. A key is replaced after some operations, so that its history stays
// short enough for porcupine.
type slots struct {
	life int64
	uses []atomic.Int64
}

// pick returns a key.
func (s *slots) pick(random *rand.Rand) Key {
	i := random.IntN(len(s.uses))
	generation := s.uses[i].Add(1) / s.life
	return Key{kinds[i%len(kinds)], fmt.Sprintf("r%d-%d", i/len(kinds), generation)}
}

// A board has the last states seen by any client. It makes clients compete: several of them update
// one object from the same revision.
type board struct {
	mu   sync.Mutex
	keys map[Key]Object
}

func (b *board) look(k Key) Object {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.keys[k]
}

func (b *board) is(k Key, o Object) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if o.Revision > b.keys[k].Revision {
		b.keys[k] = o
	}
}

// gone records that an object does not exist.
func (b *board) gone(o *Operation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if o.Verb != Delete || o.Outcome == NotFound || b.keys[o.Key].UID == o.Object.UID {
		delete(b.keys, o.Key)
	}
}
