package fairness

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authz"
	"github.com/kapok-dev/kapok/internal/state"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Limiter limits the requests that are served at a time. Make one with [New]. It is safe for
// concurrent use.
type Limiter struct {
	opts    Config
	epoch   time.Time
	seed    maphash.Seed
	size    func(schema.GroupResource) (objects int, bytes int64) // nil if lists are not estimated
	reading atomic.Int64                                          // requests under way
	writing atomic.Int64
	watches watches
	alarms  alarms

	config   *state.Derived[*configuration] // nil without a State
	fixed    sync.Once                      // makes the configuration without a State
	current  atomic.Pointer[configuration]  // the latest one; nil before the first request
	adjusted atomic.Int64                   // instant of the last adjustment of limits
	mu       sync.Mutex                     // serializes changes of the configuration and of limits; acquired after config's lock
	fraction float64                        // fraction of its target that each level got; guarded by mu
}

// New returns a Limiter. Unless c.State is nil or c.Unfair is set, it follows the configuration in
// the State.
func New(c Config) *Limiter {
	c = c.withDefaults()
	l := &Limiter{opts: c, epoch: time.Now(), seed: maphash.MakeSeed(), size: c.Size}
	l.watches.most = c.MaxWatchesPerUser
	if c.State != nil && !c.Unfair {
		l.config = state.Derive(c.State, l.configure, PriorityLevels, FlowSchemas)
	}
	return l
}

// Close waits for the Limiter's timers. Call it when no request is under way.
func (l *Limiter) Close() {
	l.alarms.close()
}

func (l *Limiter) now() instant { return time.Since(l.epoch) }

// A Request has the properties of a request that a Limiter uses.
type Request struct {
	*authz.Attributes
	// Query is the encoded query of the URL.
	Query string
	// Reads is true if Options.MaxRequestsInFlight limits the request, and false if
	// MaxMutatingRequestsInFlight does.
	Reads bool
	// Patience is the maximum time that the request waits for its seats.
	Patience time.Duration
}

// A Pass is the admission of a request. Call Leave after the request has been served. The zero Pass
// belongs to no request.
type Pass struct {
	flow  *flow // nil without fairness
	queue *queue
	work  Work
	begun instant
	watch bool
	count *atomic.Int64
	// exempt is not derived from flow, which is nil without fairness.
	exempt bool
}

// Exempt reports whether the request is exempt from limits: because of the exempt priority level
// or, without fairness, as a request of a member of system:masters.
func (p *Pass) Exempt() bool { return p.exempt }

// FlowSchemaUID returns the UID of the request's FlowSchema as the value of a response header; nil
// without fairness. The caller must not change it.
func (p *Pass) FlowSchemaUID() []string {
	if p.flow == nil {
		return nil
	}
	return p.flow.schemaUID
}

// PriorityLevelUID is FlowSchemaUID for the PriorityLevelConfiguration.
func (p *Pass) PriorityLevelUID() []string {
	if p.flow == nil {
		return nil
	}
	return p.flow.levelUID
}

// Leave releases the seats of the request. A second call has no effect.
func (p *Pass) Leave() {
	if p.count != nil {
		p.count.Add(-1)
		p.count = nil
	}
	if f := p.flow; f != nil && p.work.Seats > 0 {
		limiter := f.level.limiter
		now := limiter.now()
		f.level.leave(now, p)
		p.work = Work{}
		limiter.adjust(now)
	}
}

// Enter admits a request, and waits for its seats if necessary. If it rejects the request,
// retryAfter is positive: the number of seconds after which the client may retry; the Pass then
// only has the classification.
func (l *Limiter) Enter(ctx context.Context, r *Request) (p Pass, retryAfter int64) {
	if l.opts.Unfair {
		return l.enterPlain(r)
	}
	f := l.configuration().classify(r.Attributes)
	work, hash := Work{Seats: 1}, uint64(0)
	if !f.exempt {
		work = l.estimate(r.Attributes, r.Query, f.most)
	}
	if f.queued {
		hash = f.schema.flow(l.seed, r.Attributes)
	}
	now := l.now()
	l.adjust(now)
	p, waits, refused := f.level.enter(now, f, hash, work)
	switch {
	case refused != "":
	case waits == nil:
		return l.entered(p, r), 0
	case l.wait(ctx, waits, r.Patience):
		return l.entered(waits.Pass, r), 0
	}
	return Pass{flow: f}, f.level.retryAfter(l.epoch.Add(l.now())) // monotonic: jumps of the wall clock have no effect
}

func (l *Limiter) entered(p Pass, r *Request) Pass {
	p.watch = r.Verb == "watch"
	p.exempt = p.flow != nil && p.flow.exempt
	p.count = l.counter(r)
	p.count.Add(1)
	return p
}

func (l *Limiter) counter(r *Request) *atomic.Int64 {
	if r.Reads {
		return &l.reading
	}
	return &l.writing
}

// enterPlain admits a request without fairness, by the number of requests under way. Watches are
// not limited.
func (l *Limiter) enterPlain(r *Request) (Pass, int64) {
	exempt := r.User.In(authn.Masters)
	if r.Verb == "watch" {
		return Pass{exempt: exempt}, 0
	}
	count, most := l.counter(r), l.opts.MaxMutatingRequestsInFlight
	if r.Reads {
		most = l.opts.MaxRequestsInFlight
	}
	if n := count.Add(1); most >= 0 && n > int64(most) && !exempt {
		count.Add(-1)
		return Pass{}, 1
	}
	return Pass{count: count, exempt: exempt}, 0
}

// InFlight returns the numbers of reads and of writes that are being served.
func (l *Limiter) InFlight() (reading, writing int64) { return l.reading.Load(), l.writing.Load() }

// seats returns the number of seats that the levels share.
func (l *Limiter) seats() int {
	return max(0, l.opts.MaxRequestsInFlight) + max(0, l.opts.MaxMutatingRequestsInFlight)
}

// untilAdjustment returns the time until the next adjustment of limits, and at least a millisecond.
func (l *Limiter) untilAdjustment(now instant) time.Duration {
	return max(time.Millisecond, instant(l.adjusted.Load())+adjustEvery-now)
}

// adjust divides the seats again if that is due.
func (l *Limiter) adjust(now instant) {
	due := func() bool { return now-instant(l.adjusted.Load()) >= adjustEvery }
	if !due() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.current.Load(); c != nil && due() {
		l.adjustLocked(now, c)
	}
}

func (l *Limiter) adjustLocked(now instant, c *configuration) {
	shares := make([]share, len(c.levels))
	for i, level := range c.levels {
		shares[i] = level.endPeriod(now)
	}
	limits, fraction := lend(shares)
	for i, level := range c.levels {
		level.setLimit(now, limits[i])
	}
	l.fraction = fraction
	l.adjusted.Store(int64(now))
}
