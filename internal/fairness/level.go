package fairness

import (
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/util/shufflesharding"
)

// A level is a priority level: some of the server's seats, and those who wait for them. It outlives changes of its
// configuration, and its deletion as long as requests are in it.
type level struct {
	name    string
	limiter *Limiter

	// All that follows is guarded by mu.
	mu        sync.Mutex
	settings  settings
	share     share // but for what is wanted
	limit     int   // seats, for now
	trend     trend
	demand    demand
	dealer    *shufflesharding.Dealer
	queues    queues
	executing int // requests
	waiting   int // requests
	seats     int // in use
	wanted    int // seats that are waited for
	lingering []linger
	alarm     *time.Timer // nil unless somebody waits for what lingers
	alarmAt   instant
	backoff   backoff
	tallies   map[string]*tally // by name of the schema
}

func newLevel(l *Limiter, name string, now instant) *level {
	return &level{
		name: name, limiter: l, tallies: map[string]*tally{},
		demand: demand{at: now, since: now}, queues: queues{synced: now},
	}
}

// tally returns what is counted of the requests of a schema.
func (l *level) tally(schema string) *tally {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.tallies[schema]
	if t == nil {
		t = newTally(schema)
		l.tallies[schema] = t
	}
	return t
}

// forget drops what was counted of schemas that no longer lead to the level.
func (l *level) forget(flows []*flow) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.tallies, func(_ string, t *tally) bool {
		return t.executing+t.waiting == 0 && !slices.ContainsFunc(flows, func(f *flow) bool { return f.tally == t })
	})
}

// settings are what a PriorityLevelConfiguration says of how requests are taken.
type settings struct {
	exempt      bool
	queues      int // 0: nobody waits
	handSize    int
	queueLength int
}

// A linger is seats that stay in use until a time after their request.
type linger struct {
	until instant
	seats int
}

// Why requests are refused, as the metrics have it.
const (
	queueFull        = "queue-full"
	concurrencyLimit = "concurrency-limit"
	timeOut          = "time-out"
)

// configure takes over what a configuration says. The limit is set by others.
func (l *level) configure(now instant, s settings, nominal share) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.syncLocked(now)
	if s.queues > 0 && (l.dealer == nil || s.queues != l.settings.queues || s.handSize != l.settings.handSize) {
		dealer, err := shufflesharding.NewDealer(s.queues, s.handSize)
		if err != nil { // validation has seen to that
			s.queues = 0
		}
		l.dealer = dealer
	}
	l.settings, l.share = s, nominal
	l.queues.resize(s.queues)
}

// settingsOf reads a specification; ok is false for one that cannot be.
func settingsOf(name string, spec *flowcontrolv1.PriorityLevelConfigurationSpec) (s settings, ok bool) {
	exempt := spec.Type == flowcontrolv1.PriorityLevelEnablementExempt
	switch {
	case exempt != (spec.Exempt != nil), exempt == (spec.Limited != nil),
		exempt != (name == flowcontrolv1.PriorityLevelConfigurationNameExempt):
		return s, false
	case exempt:
		return settings{exempt: true}, true
	}
	response := &spec.Limited.LimitResponse
	if (response.Type == flowcontrolv1.LimitResponseTypeQueue) != (response.Queuing != nil) {
		return s, false
	}
	if q := response.Queuing; q != nil {
		s = settings{queues: int(q.Queues), handSize: int(q.HandSize), queueLength: int(q.QueueLengthLimit)}
		if _, err := shufflesharding.NewDealer(s.queues, s.handSize); err != nil {
			return s, false
		}
	}
	return s, true
}

// setLimit gives a level its seats; whoever has waited for them gets them.
func (l *level) setLimit(now instant, limit int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.syncLocked(now)
	l.limit = limit
	l.dispatchLocked(now)
}

// endPeriod returns what the level may have and wants.
func (l *level) endPeriod(now instant) share {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trend.add(l.demand.end(now))
	s := l.share
	s.most, s.smoothed = l.trend.most, l.trend.smoothed
	return s
}

// syncLocked brings the level up to now.
func (l *level) syncLocked(now instant) {
	for len(l.lingering) > 0 && l.lingering[0].until <= now {
		first := l.lingering[0]
		l.lingering = l.lingering[1:]
		l.queues.advance(first.until, l.seats+l.wanted, l.limit)
		l.seats -= first.seats
		l.demand.set(first.until, l.seats+l.wanted)
	}
	l.queues.advance(now, l.seats+l.wanted, l.limit)
}

// fitsLocked says whether so many seats are free. What wants more than there are gets in when nobody else is there.
func (l *level) fitsLocked(seats int) bool {
	if seats > l.limit {
		return l.executing == 0
	}
	return l.seats+seats <= l.limit
}

// enter lets a request in, has it wait, or refuses it.
func (l *level) enter(now instant, f *flow, hash uint64, w Work) (p Pass, waits *waiter, refused string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p = Pass{flow: f, work: w, begun: now}
	l.syncLocked(now)
	switch {
	case l.settings.exempt:
	case l.settings.queues == 0:
		if !l.fitsLocked(w.most()) {
			f.tally.refused(concurrencyLimit)
			return p, nil, concurrencyLimit
		}
		f.tally.waited.observe(0)
	default:
		var hand [16]int
		q := l.queues.pick(l.dealer.DealIntoHand(hash, hand[:]))
		if l.seats >= l.limit && len(q.waiting) >= l.settings.queueLength {
			f.tally.refused(queueFull)
			return p, nil, queueFull
		}
		arrived := l.queues.arrive(q)
		p.queue = q
		if l.waiting > 0 || l.seats >= l.limit || !l.fitsLocked(w.most()) {
			waits = &waiter{Pass: p, came: now, arrived: arrived, ready: make(chan struct{})}
			l.waitLocked(now, waits)
			return p, waits, ""
		}
		q.start = max(q.start, arrived)
		p.work = w.within(l.limit)
		l.queues.begin(q, p.work)
		f.tally.lengths.observe(1)
		f.tally.waited.observe(0)
	}
	l.beginLocked(now, &p)
	return p, nil, ""
}

func (l *level) waitLocked(now instant, w *waiter) {
	w.queue.push(w)
	l.waiting++
	l.wanted += w.work.most()
	t := w.flow.tally
	t.lengths.observe(float64(len(w.queue.waiting)))
	t.waiting++
	t.wanted += w.work.most()
	l.dispatchLocked(now)
}

// beginLocked counts a request that begins.
func (l *level) beginLocked(now instant, p *Pass) {
	l.executing++
	l.seats += p.work.most()
	l.demand.set(now, l.seats+l.wanted)
	t := p.flow.tally
	t.dispatched++
	t.executing++
	t.seats += p.work.most()
	t.widths.observe(float64(p.work.most()))
}

// unwaitLocked takes a request out of those that wait.
func (l *level) unwaitLocked(w *waiter) {
	w.queue.remove(w)
	l.waiting--
	l.wanted -= w.work.most()
	t := w.flow.tally
	t.waiting--
	t.wanted -= w.work.most()
}

// dispatchLocked lets in those whose turn it is, as long as there are seats.
func (l *level) dispatchLocked(now instant) {
	for l.waiting > 0 && l.seats < l.limit {
		q := l.queues.next()
		w := q.waiting[0]
		if !l.fitsLocked(w.work.most()) {
			break
		}
		l.unwaitLocked(w)
		w.flow.tally.waited.observe((now - w.came).Seconds())
		w.begun, w.granted = now, true
		w.work = w.work.within(l.limit)
		l.queues.begin(q, w.work)
		l.beginLocked(now, &w.Pass)
		close(w.ready)
	}
	l.demand.set(now, l.seats+l.wanted)
	l.setAlarmLocked(now)
}

// leave takes back the seats of a request.
func (l *level) leave(now instant, p *Pass) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.syncLocked(now)
	l.executing--
	t := p.flow.tally
	t.executing--
	t.seats -= p.work.most()
	took := now - p.begun
	t.executed(p.watch).observe(took.Seconds())
	if p.queue != nil {
		l.queues.end(p.queue, p.work, took)
	}
	if p.work.FinalSeats > 0 && p.work.FinalLength > 0 {
		l.lingerLocked(linger{until: now + p.work.FinalLength, seats: p.work.most()})
	} else {
		l.seats -= p.work.most()
	}
	if len(l.queues.all) > l.settings.queues {
		l.queues.resize(l.settings.queues)
	}
	if l.waiting > 0 {
		l.dispatchLocked(now)
	} else {
		l.demand.set(now, l.seats+l.wanted)
	}
}

// lingerLocked keeps what lingers in the order in which it ends.
func (l *level) lingerLocked(n linger) {
	at := len(l.lingering)
	for at > 0 && l.lingering[at-1].until > n.until {
		at--
	}
	l.lingering = append(l.lingering, linger{})
	copy(l.lingering[at+1:], l.lingering[at:])
	l.lingering[at] = n
}

// cancel ends the wait of a request, unless it has been let in meanwhile.
func (l *level) cancel(now instant, w *waiter) (granted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.granted {
		return true
	}
	l.syncLocked(now)
	l.unwaitLocked(w)
	w.queue.catchUp()
	l.queues.left(w.queue)
	w.flow.tally.refused(timeOut)
	w.flow.tally.waitedInVain.observe((now - w.came).Seconds())
	l.demand.set(now, l.seats+l.wanted)
	l.dispatchLocked(now) // the next one may want less
	return false
}

// setAlarmLocked sees to it that those who wait get what lingers when its time is over.
func (l *level) setAlarmLocked(now instant) {
	if l.waiting == 0 || len(l.lingering) == 0 {
		return
	}
	at := l.lingering[0].until
	switch {
	case l.alarm == nil:
		if l.limiter.alarms.begin() {
			l.alarm, l.alarmAt = time.AfterFunc(at-now, l.ring), at
		}
	case at < l.alarmAt && l.alarm.Stop(): // if it does not stop, it is ringing
		l.alarm.Reset(at - now)
		l.alarmAt = at
	}
}

func (l *level) ring() {
	defer l.limiter.alarms.end()
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.limiter.now()
	l.alarm = nil
	l.syncLocked(now)
	l.dispatchLocked(now)
}

// retryAfter counts a refusal, and says when to come again, in seconds.
func (l *level) retryAfter(at time.Time) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.backoff.refuse(at)
}

// shareOf is what a level has of seats that are divided by the sum of all shares.
func shareOf(spec *flowcontrolv1.PriorityLevelConfigurationSpec, seats int, sum float64) share {
	own, lendable, borrowing := sharesOf(spec)
	s := share{exempt: spec.Exempt != nil}
	if sum > 0 {
		s.nominal = int(math.Ceil(float64(seats) * float64(own) / sum))
	}
	s.lower = s.nominal - percent(s.nominal, lendable)
	s.upper = s.nominal + seats
	if borrowing != nil {
		s.upper = s.nominal + percent(s.nominal, *borrowing)
	}
	return s
}

func percent(of int, p int32) int { return int(math.Round(float64(of) * float64(p) / 100)) }

func sharesOf(spec *flowcontrolv1.PriorityLevelConfigurationSpec) (own, lendable int32, borrowing *int32) {
	value := func(p *int32, missing int32) int32 {
		if p == nil {
			return missing
		}
		return *p
	}
	if limited := spec.Limited; limited != nil {
		return value(limited.NominalConcurrencyShares, 30), value(limited.LendablePercent, 0), limited.BorrowingLimitPercent
	}
	return value(spec.Exempt.NominalConcurrencyShares, 0), value(spec.Exempt.LendablePercent, 0), nil
}

// widest is how many seats one request of a level may take.
func widest(s settings, nominal int) int {
	if s.queues == 0 {
		return mostSeats
	}
	most := min(math.Ceil(float64(nominal)*0.15), float64(nominal/s.handSize))
	return min(mostSeats, max(1, int(most)))
}
