package daemonset

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	firstPause   = time.Second
	longestPause = 15 * time.Minute
	// forgetAfter is the time without a failure after which the backoff is reset.
	forgetAfter = 2 * longestPause
)

// A place is a node of a set. A change of the spec resets the backoff.
type place struct {
	set        types.UID
	generation int64 // that the status has observed
	node       string
}

// A backoff limits how often failed pods are deleted and created again: a pause after each
// deletion, twice as long each time. Where a kubelet rejects each new pod at once, the controller
// would never come to rest otherwise.
type backoff struct {
	mu     sync.Mutex
	pauses map[place]pause
	swept  time.Time // the time of the last sweep of old places
}

type pause struct {
	since  time.Time
	length time.Duration
}

func newBackoff() *backoff { return &backoff{pauses: map[place]pause{}} }

// wait returns how long a failed pod has to stay. If that is 0, the next pause begins.
func (b *backoff) wait(at place, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	p, ok := b.pauses[at]
	switch {
	case !ok || now.Sub(p.since) > forgetAfter:
		p.length = firstPause
	case now.Sub(p.since) < p.length:
		return p.length - now.Sub(p.since)
	default:
		p.length = min(2*p.length, longestPause)
	}
	p.since = now
	b.sweepLocked(now)
	b.pauses[at] = p
	return 0
}

// sweepLocked forgets old pauses, at most once a minute.
func (b *backoff) sweepLocked(now time.Time) {
	if now.Sub(b.swept) < time.Minute {
		return
	}
	b.swept = now
	for at, p := range b.pauses {
		if now.Sub(p.since) > forgetAfter {
			delete(b.pauses, at)
		}
	}
}
