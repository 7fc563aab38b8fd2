package fairness

import (
	"context"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kapok-dev/kapok/internal/auth"
	"github.com/kapok-dev/kapok/internal/resource"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Options are the settings of a Limiter; zero values mean the defaults.
type Options struct {
	// Reading and Writing bound the requests that are served at a time: those that read, and those that write. With
	// fairness, their sum is what is divided among the priority levels. Defaults: those of kube-apiserver, 400 and 200.
	// Negative: none, which without fairness means no bound.
	Reading, Writing int
	// Plain leaves FlowSchemas alone: reads and writes have a bound each, and system:masters have none.
	Plain bool
	// Store is where the configuration is. Default: none, what Kubernetes has from its start counts.
	Store *resource.Store
	// Count tells how many objects of a resource there are, which is what lists are estimated by. Default: what the Store has, or
	// all lists are short.
	Count func(schema.GroupResource) int
	// WatchesPerUser bounds the watches of one user, but for system:masters. Default 10,000; negative means no bound.
	WatchesPerUser int
	// Logger gets what cannot be put right. Default: nothing is logged.
	Logger *slog.Logger
}

// What counts unless Options say otherwise.
const (
	DefaultReading        = 400
	DefaultWriting        = 200
	DefaultWatchesPerUser = 10_000
)

// A Limiter lets requests in. Make one with [New]. It is safe for concurrent use.
type Limiter struct {
	opts    Options
	epoch   time.Time
	seed    maphash.Seed
	count   func(schema.GroupResource) int // of live objects; nil if nobody knows
	reading atomic.Int64                   // requests under way
	writing atomic.Int64
	watches watches
	alarms  alarms

	changes  atomic.Uint64 // of what is stored of the configuration
	current  atomic.Pointer[configuration]
	adjusted atomic.Int64 // when limits were, as an instant
	mu       sync.Mutex   // orders changes of the configuration and of limits
	fraction float64      // of the targets that all levels got; guarded by mu

	maintainer *maintainer // nil if there is nothing to follow
}

// New returns a Limiter. With a Store, and unless it is plain, it follows the configuration there until Close.
func New(opts Options) *Limiter {
	if opts.Reading == 0 {
		opts.Reading = DefaultReading
	}
	if opts.Writing == 0 {
		opts.Writing = DefaultWriting
	}
	if opts.WatchesPerUser == 0 {
		opts.WatchesPerUser = DefaultWatchesPerUser
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	l := &Limiter{opts: opts, epoch: time.Now(), seed: maphash.MakeSeed(), count: opts.Count}
	l.watches.most = opts.WatchesPerUser
	if opts.Store != nil {
		if l.count == nil {
			l.count = opts.Store.State().Count
		}
		if !opts.Plain {
			l.maintainer = l.maintain()
		}
	}
	return l
}

// Close ends what the Limiter runs. No request is under way then.
func (l *Limiter) Close() {
	if l.maintainer != nil {
		l.maintainer.close()
	}
	l.alarms.close()
}

func (l *Limiter) now() instant { return time.Since(l.epoch) }

// A Request is what a Limiter is told of one.
type Request struct {
	*auth.Attributes
	// Query are the parameters, as they stand in the URL.
	Query string
	// Reads says that the request is one of those that Options.Reading bounds.
	Reads bool
	// Patience is how long the request may wait for its seats.
	Patience time.Duration
}

// A Pass is what a request gets that is let in; Leave has to be called when it has been served. The zero Pass is nobody's.
type Pass struct {
	flow  *flow // nil without fairness
	queue *queue
	work  Work
	begun instant
	watch bool
	count *atomic.Int64
}

// FlowSchemaUID and PriorityLevelUID are the values of the headers that tell clients how they were classified; nil if they were
// not. They must not be changed.
func (p *Pass) FlowSchemaUID() []string {
	if p.flow == nil {
		return nil
	}
	return p.flow.schemaUID
}

// PriorityLevelUID is described at FlowSchemaUID.
func (p *Pass) PriorityLevelUID() []string {
	if p.flow == nil {
		return nil
	}
	return p.flow.levelUID
}

// Leave gives back what the request took. A second call does nothing.
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

// Enter lets a request in, as soon as there is room for it. Where there is none, retryAfter is in how many seconds it may try again; the
// Pass then tells only how it was classified.
func (l *Limiter) Enter(ctx context.Context, r *Request) (p Pass, retryAfter int64) {
	if l.opts.Plain {
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
	return Pass{flow: f}, f.level.retryAfter(time.Now())
}

func (l *Limiter) entered(p Pass, r *Request) Pass {
	p.watch = r.Verb == "watch"
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

// enterPlain knows only how many there are. Watches are not bound in number.
func (l *Limiter) enterPlain(r *Request) (Pass, int64) {
	if r.Verb == "watch" {
		return Pass{}, 0
	}
	count, most := l.counter(r), l.opts.Writing
	if r.Reads {
		most = l.opts.Reading
	}
	if n := count.Add(1); most >= 0 && n > int64(most) && !r.User.In(auth.Masters) {
		count.Add(-1)
		return Pass{}, 1
	}
	return Pass{count: count}, 0
}

// InFlight returns how many requests are being served: those that read, and those that write.
func (l *Limiter) InFlight() (reading, writing int64) { return l.reading.Load(), l.writing.Load() }

// seats is what is divided among the levels.
func (l *Limiter) seats() int { return max(0, l.opts.Reading) + max(0, l.opts.Writing) }

// untilAdjustment is how long it is until limits are to be adjusted.
func (l *Limiter) untilAdjustment(now instant) time.Duration {
	return max(time.Millisecond, instant(l.adjusted.Load())+adjustEvery-now)
}

// adjust divides the seats anew if it is time for that.
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
