package main

import "testing"

func TestGarbagePercent(t *testing.T) {
	const mb = 1 << 20
	for _, tc := range []struct {
		live uint64
		want int
	}{
		{0, 100}, {1, 100}, {4 * mb, 100}, {16 * mb, 100}, {32 * mb, 50}, {64 * mb, 25}, {128 * mb, 12}, {10000 * mb, 12},
	} {
		if got := garbagePercent(tc.live); got != tc.want {
			t.Errorf("of %d MB: %d %%, want %d %%", tc.live/mb, got, tc.want)
		}
	}
}
