package bench

import (
	"math"
	"slices"
	"time"
)

// durations are repeated measurements of one operation.
type durations []time.Duration

// quantile returns the smallest duration that at least the part q of all does not exceed; zero if
// there are none. It sorts d.
func (d durations) quantile(q float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	rank := math.Ceil(q*float64(len(d)) - 1e-9) // because 0.07 times 100 is slightly more than 7
	return d[max(1, int(rank))-1]
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
