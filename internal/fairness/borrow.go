package fairness

import (
	"math"
	"slices"
)

// A share is what a level may have, in seats, and what it wants.
type share struct {
	exempt bool
	// nominal is its part of the server's bound, lower what it does not lend, upper what it may have with what it borrows.
	nominal, lower, upper int
	most                  int     // that it wanted at a time, in the last period
	smoothed              float64 // that it wants
}

// floor is what the level shall have: what it used, within what is its own.
func (s *share) floor() int {
	if s.exempt {
		return max(s.lower, s.most)
	}
	return max(s.lower, min(s.nominal, s.most))
}

// target is what the level should have, if there was enough.
func (s *share) target() float64 { return max(float64(s.floor()), s.smoothed) }

// lend divides the seats of all levels among them, and returns the limit of each, and which part of its target each could get
// that no bound held back.
//
// The exempt level takes what it wants, which is not counted again. If what the others shall have is too much then, they
// get less, in proportion, but never less than their lower bounds.
func lend(shares []share) (limits []int, fraction float64) {
	var all, lower, floor int
	for i := range shares {
		s := &shares[i]
		all += s.nominal
		if !s.exempt {
			lower += s.lower
			floor += s.floor()
		}
	}
	left := all
	for i := range shares {
		if shares[i].exempt {
			left -= shares[i].floor()
		}
	}
	limits = make([]int, len(shares))
	limit := func(s *share) int { return s.lower }
	switch {
	case left <= lower:
	case left <= floor:
		part := float64(left-lower) / float64(floor-lower)
		limit = func(s *share) int { return s.lower + int(math.Round(float64(s.floor()-s.lower)*part)) }
	default:
		fraction = fairFraction(all, shares)
		limit = func(s *share) int { return int(math.Round(s.given(fraction))) }
	}
	for i := range shares {
		if s := &shares[i]; s.exempt {
			limits[i] = s.floor()
		} else {
			limits[i] = limit(s)
		}
	}
	return limits, fraction
}

// leastTarget stands in for targets of zero, which would get nothing of what is left over.
const leastTarget = 0.001

// given is what a level gets if all get the same fraction of their targets, within their bounds.
func (s *share) given(fraction float64) float64 {
	return min(max(fraction*max(s.target(), leastTarget), float64(s.floor())), float64(s.upper))
}

// fairFraction is the fraction at which the levels that are not exempt get all seats together; where they cannot take so many, or
// must have more, the one at which they get the most, or the least.
func fairFraction(seats int, shares []share) float64 {
	total := func(fraction float64) (sum float64) {
		for i := range shares {
			if !shares[i].exempt {
				sum += shares[i].given(fraction)
			}
		}
		return sum
	}
	// Between the fractions at which a level meets one of its bounds the sum grows evenly.
	var bends []float64
	for i := range shares {
		if s := &shares[i]; !s.exempt {
			target := max(s.target(), leastTarget)
			bends = append(bends, float64(s.floor())/target, float64(s.upper)/target)
		}
	}
	if len(bends) == 0 {
		return 0
	}
	slices.Sort(bends)
	at, _ := slices.BinarySearchFunc(bends, float64(seats), func(bend, seats float64) int {
		if total(bend) < seats {
			return -1
		}
		return 1
	})
	switch at {
	case 0:
		return bends[0]
	case len(bends):
		return bends[at-1]
	}
	from, to := bends[at-1], bends[at]
	low, high := total(from), total(to)
	if high <= low {
		return to
	}
	return from + (to-from)*(float64(seats)-low)/(high-low)
}
