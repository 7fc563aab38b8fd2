package fairness

import (
	"math"
	"sync"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/util/shufflesharding"
)

// A level is a priority level: its seats, and the requests that wait for them. It outlives changes
// of its configuration; after its deletion it exists until its last request has left.
type level struct {
	name    string
	limiter *Limiter

	// mu guards all fields below.
	mu        sync.Mutex
	settings  settings
	share     share // without most and smoothed
	limit     int   // current number of seats
	trend     trend
	demand    demand
	dealer    *shufflesharding.Dealer
	queues    queues
	executing int // requests
	waiting   int // requests
	seats     int // in use
	wanted    int // by waiting requests
	lingering []linger
	alarm     *time.Timer // nil unless a request waits for lingering seats
	alarmAt   instant
	backoff   backoff
	tallies   map[string]*tally // by name of the schema
	retired   map[string]*tally // the tallies whose schemas no longer refer to this level
}

func newLevel(l *Limiter, name string, now instant) *level {
	return &level{
		name: name, limiter: l, tallies: map[string]*tally{}, retired: map[string]*tally{},
		demand: demand{at: now, since: now}, queues: queues{synced: now},
	}
}

// tally returns the tally of a schema.
func (l *level) tally(schema string) *tally {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.tallies[schema]
	if t == nil {
		t = newTally(schema)
		l.tallies[schema] = t
	}
	delete(l.retired, schema)
	return t
}

// forget drops the tallies that are not used by any schema. A tally with requests is dropped after
// they have left.
func (l *level) forget(used map[*tally]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for schema, t := range l.tallies {
		if !used[t] {
			l.retired[schema] = t
		}
	}
	l.sweepLocked()
}

// retire is forget for one tally.
func (l *level) retire(t *tally) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retired[t.schema] = t
	l.sweepLocked()
}

func (l *level) sweepLocked() {
	for schema, t := range l.retired {
		if t.executing+t.waiting == 0 {
			delete(l.retired, schema)
			delete(l.tallies, schema)
		}
	}
}

// settings are the parts of a PriorityLevelConfiguration that enter uses.
type settings struct {
	exempt      bool
	queues      int // 0: requests do not wait
	handSize    int
	queueLength int
}

// A linger is a number of seats that stay in use for a time after the end of their request.
type linger struct {
	until instant
	seats int
}

// The reasons of rejections in metrics.
const (
	queueFull        = "queue-full"
	concurrencyLimit = "concurrency-limit"
	timeOut          = "time-out"
)

// configure applies a configuration, except for the limit: see setLimit.
func (l *level) configure(now instant, s settings, nominal share) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.syncLocked(now)
	if s.queues > 0 && (l.dealer == nil || s.queues != l.settings.queues || s.handSize != l.settings.handSize) {
		dealer, err := shufflesharding.NewDealer(s.queues, s.handSize)
		if err != nil { // cannot happen: settingsOf has checked them
			s.queues = 0
		}
		l.dealer = dealer
	}
	l.settings, l.share = s, nominal
	l.queues.resize(s.queues)
}

// settingsOf returns the settings of a specification; ok is false if it is invalid.
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

// setLimit sets the number of seats of a level, and admits waiting requests if there are more.
func (l *level) setLimit(now instant, limit int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.syncLocked(now)
	l.limit = limit
	l.dispatchLocked(now)
}

// endPeriod ends a period of the demand, and returns the level's share with its demand.
func (l *level) endPeriod(now instant) share {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trend.add(l.demand.end(now))
	s := l.share
	s.most, s.smoothed = l.trend.most, l.trend.smoothed
	return s
}

// syncLocked advances the level to now: it releases seats that no longer linger, and advances
// virtual time.
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

// fitsLocked reports whether that many seats are free. A request that needs more than the limit is
// admitted when no other is running.
func (l *level) fitsLocked(seats int) bool {
	if seats > l.limit {
		return l.executing == 0
	}
	return l.seats+seats <= l.limit
}

// enter admits a request, makes it wait, or rejects it with a reason.
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

// beginLocked counts a request that begins, and its seats.
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

// unwaitLocked removes a waiting request from its queue.
func (l *level) unwaitLocked(w *waiter) {
	w.queue.remove(w)
	l.waiting--
	l.wanted -= w.work.most()
	t := w.flow.tally
	t.waiting--
	t.wanted -= w.work.most()
}

// dispatchLocked admits waiting requests in their fair order while there are free seats.
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

// leave releases the seats of a request, or lets them linger.
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

// lingerLocked inserts a linger in order of its end.
func (l *level) lingerLocked(n linger) {
	at := len(l.lingering)
	for at > 0 && l.lingering[at-1].until > n.until {
		at--
	}
	l.lingering = append(l.lingering, linger{})
	copy(l.lingering[at+1:], l.lingering[at:])
	l.lingering[at] = n
}

// cancel ends the wait of a request. It returns true if the request has been admitted in the
// meantime.
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
	l.dispatchLocked(now) // the next one may need fewer seats
	return false
}

// setAlarmLocked starts a timer, if requests wait, for the end of the first lingering seats.
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
	case at < l.alarmAt && l.alarm.Stop(): // if Stop returns false, ring is already running
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

// retryAfter counts a rejection, and returns its Retry-After in seconds.
func (l *level) retryAfter(at time.Time) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.backoff.refuse(at)
}

// shareOf returns the share of a level, given the seats of the server and the sum of all levels'
// concurrency shares.
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

// widest returns the maximum number of seats of one request of a level.
func widest(s settings, nominal int) int {
	if s.queues == 0 {
		return mostSeats
	}
	most := min(math.Ceil(float64(nominal)*0.15), float64(nominal/s.handSize))
	return min(mostSeats, max(1, int(most)))
}
