package bench

import (
	"testing"
	"time"
)

func TestQuantile(t *testing.T) {
	var hundred durations
	for i := range 100 {
		hundred = append(hundred, time.Duration(100-i)) // from 100 down to 1
	}
	for _, tc := range []struct {
		of   durations
		q    float64
		want time.Duration
	}{
		{nil, 0.5, 0},
		{durations{7}, 0, 7},
		{durations{7}, 0.5, 7},
		{durations{7}, 1, 7},
		{durations{2, 1}, 0.5, 1},
		{durations{2, 1}, 0.51, 2},
		{durations{3, 1, 2}, 0.5, 2},
		{durations{4, 1, 3, 2}, 0.5, 2},
		{durations{4, 1, 3, 2}, 0.99, 4},
		{hundred, 0, 1},
		{hundred, 0.07, 7}, // 0.07*100 is 7.000000000000001
		{hundred, 0.5, 50},
		{hundred, 0.99, 99},
		{hundred, 1, 100},
	} {
		if got := tc.of.quantile(tc.q); got != tc.want {
			t.Errorf("quantile %v of %v is %d, want %d", tc.q, tc.of, got, tc.want)
		}
	}
}
