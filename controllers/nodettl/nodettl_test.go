package nodettl

import (
	"fmt"
	"testing"
)

// TestSteps counts nodes that come and go, up and down through all limits.
func TestSteps(t *testing.T) {
	r := &reconciler{nodes: map[string]struct{}{}}
	up := []struct{ nodes, want int }{{1, 0}, {100, 0}, {101, 15}, {500, 15}, {501, 30}, {1000, 30}, {1001, 60}, {2000, 60}, {2001, 300}, {3000, 300}}
	n := 0
	for _, step := range up {
		for ; n < step.nodes; n++ {
			r.count(fmt.Sprint(n), true)
		}
		r.count("0", true) // is known
		if got := r.seconds(); got != step.want {
			t.Errorf("%d seconds with %d nodes, want %d", got, n, step.want)
		}
	}
	down := []struct{ nodes, want int }{{1800, 300}, {1799, 60}, {900, 60}, {899, 30}, {450, 30}, {449, 15}, {90, 15}, {89, 0}, {0, 0}}
	for _, step := range down {
		for ; n > step.nodes; n-- {
			r.count(fmt.Sprint(n-1), false)
		}
		r.count("unknown", false)
		if got := r.seconds(); got != step.want {
			t.Errorf("%d seconds with %d nodes that are left, want %d", got, n, step.want)
		}
	}
}
