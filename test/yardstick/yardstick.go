// Package yardstick measures how fast a machine is, so that limits on time mean the same on a slow
// one as on the machine on which they were set.
package yardstick

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// The work is to decode JSON with the standard library, as most of what a server does is to decode,
// to allocate and to collect. The machine on which the limits were set takes reference for it.
const (
	reference = 2500 * time.Microsecond
	items     = 2000
	tries     = 50
)

// Slowness returns how many times as long this machine takes for the work as the one on which the
// limits were set; 1 if it is faster. It logs the time. What else runs on the machine hardly
// matters, as the fastest of many tries counts.
func Slowness(t testing.TB) float64 {
	t.Helper()
	took := measure(t)
	slowness := max(1, float64(took)/float64(reference))
	t.Logf("the yardstick takes %v on this machine: limits on time are those of a machine that is %.1f times as slow", took, slowness)
	return slowness
}

func measure(t testing.TB) time.Duration {
	t.Helper()
	doc := []byte("[" + strings.TrimSuffix(strings.Repeat(`{"name":"web","labels":{"app":"web","tier":"front"},"ports":[80,443],"ready":true},`, items), ",") + "]")
	least := time.Duration(0)
	for range tries {
		began := time.Now()
		var all []any
		if err := json.Unmarshal(doc, &all); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); least == 0 || took < least {
			least = took
		}
	}
	return least
}
