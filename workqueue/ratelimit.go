package workqueue

import (
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// A RateLimiter returns the delays of keys. It is safe for concurrent use. The rate limiters of
// k8s.io/client-go/util/workqueue implement it.
type RateLimiter[K comparable] interface {
	// When counts a failure of a key, and returns its delay.
	When(key K) time.Duration
	// Forget resets the failures of a key.
	Forget(key K)
	// NumRequeues returns the number of failures of a key since Forget.
	NumRequeues(key K) int
}

// DefaultRateLimiter returns the rate limiter that controllers use by default: a key waits 5 ms
// after its first failure, twice as long after each further one, up to 1,000 s; in addition all
// keys together share 10 retries a second, with a burst of 100.
func DefaultRateLimiter[K comparable]() RateLimiter[K] {
	return MaxOf(ExponentialBackoff[K](5*time.Millisecond, 1000*time.Second), Bucket[K](10, 100))
}

// ExponentialBackoff returns a limiter that delays a key by base after its first failure, and twice
// as long after each further one, up to limit.
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

// Bucket returns a limiter for all keys together: perSecond keys a second, with a burst. It counts
// no failures.
func Bucket[K comparable](perSecond float64, burst int) RateLimiter[K] {
	return bucket[K]{rate.NewLimiter(rate.Limit(perSecond), burst)}
}

type bucket[K comparable] struct{ *rate.Limiter }

func (b bucket[K]) When(K) time.Duration { return b.Reserve().Delay() }
func (b bucket[K]) Forget(K)             {}
func (b bucket[K]) NumRequeues(K) int    { return 0 }

// MaxOf returns a limiter whose delay is the longest of those of several limiters.
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
