package filters

import (
	"context"
	"sync"
	"time"
)

// maxAnswers limits the cache: an attacker can send any number of tokens.
const maxAnswers = 1024

// answers keeps answers for a while. Of several callers that miss the same answer one asks, and the
// others wait for it.
type answers[K comparable, V any] struct {
	mu     sync.Mutex
	known  map[K]answer[V]
	asking map[K]chan struct{} // closed when the question is answered
}

type answer[V any] struct {
	value V
	until time.Time
}

func newAnswers[K comparable, V any]() *answers[K, V] {
	return &answers[K, V]{known: map[K]answer[V]{}, asking: map[K]chan struct{}{}}
}

// get returns a cached answer, or calls ask and caches its answer for the returned time. Errors are
// not cached.
func (a *answers[K, V]) get(ctx context.Context, key K, ask func() (V, time.Duration, error)) (V, error) {
	for {
		a.mu.Lock()
		if known, ok := a.known[key]; ok && time.Now().Before(known.until) {
			a.mu.Unlock()
			return known.value, nil
		}
		asked := a.asking[key]
		if asked == nil {
			break
		}
		a.mu.Unlock()
		select {
		case <-asked:
		case <-ctx.Done():
			var none V
			return none, context.Cause(ctx)
		}
	}
	done := make(chan struct{})
	a.asking[key] = done
	a.mu.Unlock()

	value, ttl, err := ask()

	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.asking, key)
	close(done)
	if err == nil {
		a.makeRoomLocked()
		a.known[key] = answer[V]{value, time.Now().Add(ttl)}
	}
	return value, err
}

// makeRoomLocked evicts expired answers, and any answer if that is not enough.
func (a *answers[K, V]) makeRoomLocked() {
	if len(a.known) < maxAnswers {
		return
	}
	now := time.Now()
	for key, known := range a.known {
		if !now.Before(known.until) {
			delete(a.known, key)
		}
	}
	for key := range a.known {
		if len(a.known) < maxAnswers {
			return
		}
		delete(a.known, key)
	}
}
