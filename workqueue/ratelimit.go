package workqueue

import (
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// A RateLimiter says how long keys wait. It is safe for use by several goroutines. Those of k8s.io/client-go/util/workqueue are of
// the same form.
type RateLimiter[K comparable] interface {
	// When counts a failure of a key, and says how long it has to wait.
	When(key K) time.Duration
	// Forget forgets the failures of a key.
	Forget(key K)
	// NumRequeues says how many failures of a key are counted.
	NumRequeues(key K) int
}

// DefaultRateLimiter makes the one that controllers use as a rule: a key waits for 5 ms after its first failure, twice as long
// after each further one, 1,000 s at most; and all keys together come back 10 times a second, after 100 for a start.
func DefaultRateLimiter[K comparable]() RateLimiter[K] {
	return MaxOf(ExponentialBackoff[K](5*time.Millisecond, 1000*time.Second), Bucket[K](10, 100))
}

// ExponentialBackoff makes a limiter that has a key wait for base after its first failure, and twice as long after each further one,
// up to limit.
func ExponentialBackoff[K comparable](base, limit time.Duration) RateLimiter[K] {
	return &exponentialBackoff[K]{base: base, limit: limit, failures: map[K]int{}}
}

type exponentialBackoff[K comparable] struct {
	base, limit time.Duration

	mu       sync.Mutex
	failures map[K]int
}

func (b *exponentialBackoff[K]) When(key K) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.failures[key]
	b.failures[key] = n + 1
	if pause := math.Ldexp(float64(b.base), n); pause < float64(b.limit) { // which may be infinite, but does not overflow
		return time.Duration(pause)
	}
	return b.limit
}

func (b *exponentialBackoff[K]) Forget(key K) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.failures, key)
}

func (b *exponentialBackoff[K]) NumRequeues(key K) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failures[key]
}

// Bucket makes a limiter for all keys together: perSecond of them, and burst at once after a rest. It counts no failures.
func Bucket[K comparable](perSecond float64, burst int) RateLimiter[K] {
	return bucket[K]{rate.NewLimiter(rate.Limit(perSecond), burst)}
}

type bucket[K comparable] struct{ *rate.Limiter }

func (b bucket[K]) When(K) time.Duration { return b.Reserve().Delay() }
func (b bucket[K]) Forget(K)             {}
func (b bucket[K]) NumRequeues(K) int    { return 0 }

// MaxOf makes a limiter that has a key wait for as long as the strictest of several wants.
func MaxOf[K comparable](limiters ...RateLimiter[K]) RateLimiter[K] { return maxOf[K](limiters) }

type maxOf[K comparable] []RateLimiter[K]

func (m maxOf[K]) When(key K) (pause time.Duration) {
	for _, l := range m {
		pause = max(pause, l.When(key))
	}
	return pause
}

func (m maxOf[K]) Forget(key K) {
	for _, l := range m {
		l.Forget(key)
	}
}

func (m maxOf[K]) NumRequeues(key K) (n int) {
	for _, l := range m {
		n = max(n, l.NumRequeues(key))
	}
	return n
}
