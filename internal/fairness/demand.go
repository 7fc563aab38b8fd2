package fairness

import (
	"math"
	"time"
)

// An instant is a time since the Limiter was made.
type instant = time.Duration

// demand is how many seats a level could use, over time: those in use and those that are waited for.
type demand struct {
	seats   int
	at      instant // until when the integrals go
	since   instant // from when
	linear  float64 // integral of seats, in seat seconds
	squared float64 // integral of their square
	most    int     // since then
}

// set says how many seats are wanted from now on.
func (d *demand) set(now instant, seats int) {
	d.advance(now)
	d.seats = seats
	d.most = max(d.most, seats)
}

func (d *demand) advance(now instant) {
	if now <= d.at {
		return
	}
	x := float64(d.seats)
	area := (now - d.at).Seconds() * x
	d.linear += area
	d.squared += area * x
	d.at = now
}

// A period is what a demand was in a stretch of time.
type period struct {
	length             time.Duration
	average, deviation float64
	most               int
}

// end returns what was since the last call, and begins anew.
func (d *demand) end(now instant) period {
	d.advance(now)
	p := period{length: now - d.since, most: d.most}
	if p.length >= 2*adjustEvery {
		p.most = d.seats // periods end when something happens: nothing has, for at least as long as one should be
	}
	if s := p.length.Seconds(); s > 0 {
		p.average = d.linear / s
		p.deviation = math.Sqrt(max(0, d.squared/s-p.average*p.average))
	}
	*d = demand{seats: d.seats, at: now, since: now, most: d.seats}
	return p
}

// What limits are adjusted to is smoothed, with a half-life of 5 minutes.
const (
	adjustEvery = 10 * time.Second
	smoothing   = 0.977 // of the old value, for each adjustEvery
)

// A trend is a demand over many periods: it goes up at once, and down slowly.
type trend struct {
	period   // the last one
	smoothed float64
}

func (t *trend) add(p period) {
	t.period = p
	if p.length <= 0 {
		return
	}
	envelope := p.average + p.deviation
	keep := math.Pow(smoothing, float64(p.length)/float64(adjustEvery))
	t.smoothed = max(envelope, keep*t.smoothed+(1-keep)*envelope)
}
