package fairness

import (
	"math"
	"time"
)

// An instant is the time since the Limiter was made.
type instant = time.Duration

// demand integrates the number of seats that a level could use over time: seats in use, and seats
// that requests wait for.
type demand struct {
	seats   int
	at      instant // end of the integrals
	since   instant // start of the integrals
	linear  float64 // integral of seats, in seat seconds
	squared float64 // integral of their square
	most    int     // maximum since then
}

// set sets the number of wanted seats from now on.
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

// A period summarizes a demand over a time.
type period struct {
	length             time.Duration
	average, deviation float64
	most               int
}

// end returns the period since the last call, and starts the next one.
func (d *demand) end(now instant) period {
	d.advance(now)
	p := period{length: now - d.since, most: d.most}
	if p.length >= 2*adjustEvery {
		p.most = d.seats // the first event after the end of a period ends it: there has been none for at least adjustEvery
	}
	if s := p.length.Seconds(); s > 0 {
		p.average = d.linear / s
		p.deviation = math.Sqrt(max(0, d.squared/s-p.average*p.average))
	}
	*d = demand{seats: d.seats, at: now, since: now, most: d.seats}
	return p
}

// Demands are smoothed with a half-life of 5 minutes.
const (
	adjustEvery = 10 * time.Second
	smoothing   = 0.977 // weight of the old value after each adjustEvery
)

// A trend is the demand over many periods: it rises at once, and falls slowly.
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
