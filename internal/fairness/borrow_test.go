package fairness

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/test/seeds"
)

// TestLend checks divisions of seats against KEP-1040: no level is below its lower bound or above
// its upper one; all seats are distributed as far as bounds allow; and each level that no bound
// limits gets the same fraction of its target.
func TestLend(t *testing.T) {
	first := seeds.Of(t)
	for i := range uint64(2000) {
		seed := first + i
		r := rand.New(rand.NewPCG(seed, 0))
		shares := make([]share, 1+r.IntN(8))
		for i := range shares {
			s := &shares[i]
			s.nominal = r.IntN(100)
			s.lower = s.nominal - r.IntN(s.nominal+1)
			s.upper = s.nominal + r.IntN(300)
			s.most = r.IntN(150)
			s.smoothed = r.Float64() * 150
			s.exempt = i > 0 && r.IntN(8) == 0
		}
		limits, fraction := lend(shares)
		if err := judgeLimits(shares, limits, fraction); err != nil {
			t.Errorf("seed %d: %v\n%+v\n%v at %f", seed, err, shares, limits, fraction)
		}
	}
}

func judgeLimits(shares []share, limits []int, fraction float64) error {
	var all, given, lower, floors, upper, left int
	for i, s := range shares {
		all += s.nominal
		if s.exempt {
			left -= limits[i]
			if limits[i] != max(s.lower, s.most) {
				return fmt.Errorf("%d is exempt, and gets %d", i, limits[i])
			}
			continue
		}
		if limits[i] < s.lower || limits[i] > max(s.upper, s.lower) {
			return fmt.Errorf("%d gets %d", i, limits[i])
		}
		given += limits[i]
		lower += s.lower
		floors += s.floor()
		upper += s.upper
	}
	left += all
	tolerance := len(shares) // each is rounded
	switch {
	case left <= lower:
		if given != lower {
			return fmt.Errorf("given %d, want the lower bounds %d", given, lower)
		}
	case left <= floors:
		if math.Abs(float64(given-left)) > float64(tolerance) {
			return fmt.Errorf("given %d, want the %d that are left", given, left)
		}
	default:
		want := min(max(all, floors), upper)
		if math.Abs(float64(given-want)) > float64(tolerance) {
			return fmt.Errorf("given %d, want %d", given, want)
		}
		for i, s := range shares {
			fair := fraction * max(s.target(), leastTarget)
			switch limit := float64(limits[i]); {
			case s.exempt, math.Abs(limit-fair) < 0.51:
			case limit >= float64(s.floor()) && math.Abs(limit-float64(s.floor())) < 0.51 && fair < limit: // held up
			case math.Abs(limit-float64(s.upper)) < 0.51 && fair > limit: // held back
			default:
				return fmt.Errorf("%d gets %f, and should %f", i, limit, fair)
			}
		}
	}
	return nil
}

// TestDemand integrates a demand that is known in advance.
func TestDemand(t *testing.T) {
	var d demand
	d.set(2*time.Second, 4) // nothing, and then 4
	d.set(3*time.Second, 1)
	p := d.end(4 * time.Second)
	if p.length != 4*time.Second || p.most != 4 || p.average != 1.25 || math.Abs(p.deviation-math.Sqrt(17.0/4-1.25*1.25)) > 1e-9 {
		t.Errorf("%+v", p)
	}
	if p := d.end(5 * time.Second); p.length != time.Second || p.most != 1 || p.average != 1 || p.deviation != 0 {
		t.Errorf("the next one: %+v", p)
	}
	var slow, fast trend
	slow.add(period{length: adjustEvery, average: 100})
	fast = slow
	slow.add(period{length: 3 * adjustEvery})
	for range 3 {
		fast.add(period{length: adjustEvery})
	}
	if math.Abs(slow.smoothed-fast.smoothed) > 1e-9 || slow.smoothed >= 100 || slow.smoothed < 90 {
		t.Errorf("after three periods at once %f, one by one %f", slow.smoothed, fast.smoothed)
	}
}
