package fairness

import (
	"math"
	"slices"
)

// A share is the seats that a level is entitled to, and its demand.
type share struct {
	exempt bool
	// nominal is the level's part of the server's seats; lower is the part of nominal that it does
	// not lend; upper is the most that it may have with borrowed seats.
	nominal, lower, upper int
	most                  int     // maximum demand in the last period
	smoothed              float64 // smoothed demand
}

// floor returns the seats that the level gets if possible: its recent demand, but at least lower
// and, unless it is exempt, at most nominal.
func (s *share) floor() int {
	if s.exempt {
		return max(s.lower, s.most)
	}
	return max(s.lower, min(s.nominal, s.most))
}

// target returns the seats that the level needs, if there are enough.
func (s *share) target() float64 { return max(float64(s.floor()), s.smoothed) }

// lend divides the seats of all levels among them. It returns the limit of each level, and the
// fraction of its target that each level gets unless a bound prevents it.
//
// The exempt level gets its demand. If the remaining seats do not suffice for the floors of the
// other levels, these get proportionally less, but at least their lower bounds.
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

// leastTarget replaces targets of zero, so that all levels get a part of spare seats.
const leastTarget = 0.001

// given returns the seats of a level for a fraction of its target, within its bounds.
func (s *share) given(fraction float64) float64 {
	return min(max(fraction*max(s.target(), leastTarget), float64(s.floor())), float64(s.upper))
}

// fairFraction returns the fraction at which the levels that are not exempt use all seats. If their
// bounds prevent that, it returns the fraction with the nearest total.
func fairFraction(seats int, shares []share) float64 {
	total := func(fraction float64) (sum float64) {
		for i := range shares {
			if !shares[i].exempt {
				sum += shares[i].given(fraction)
			}
		}
		return sum
	}
	// Between two fractions at which a level reaches a bound, the total is linear.
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
