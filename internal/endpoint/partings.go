package endpoint

import (
	"context"
	"sync/atomic"
	"time"
)

// minPartings is the minimum number of watches that end in a second, as in kube-apiserver.
const minPartings = 200

// partings spread the ends of watches when the server stops, so that their clients do not all list
// and watch at another server at the same time.
type partings struct {
	watching atomic.Int64  // watches that send events
	parted   atomic.Int64  // watches that await their turn, or have ended
	pace     time.Duration // between two watches
}

// spread lets the present watches end within grace. It must precede the first call of await.
func (p *partings) spread(grace time.Duration) {
	p.pace = min(grace/time.Duration(max(1, p.watching.Load())), time.Second/minPartings)
}

// await returns when a watch may end: the first one at once, and each further one later by the
// pace. It returns earlier if ctx is done.
func (p *partings) await(ctx context.Context) {
	turn := time.Duration(p.parted.Add(1)-1) * p.pace
	if turn == 0 {
		return
	}
	timer := time.NewTimer(turn)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
