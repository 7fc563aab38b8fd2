package shards

import (
	"fmt"
	"math"
	"testing"
)

// TestDivide checks that each key belongs to exactly one member, that members get equal shares, and
// that a member that leaves moves no keys but its own.
func TestDivide(t *testing.T) {
	const keys = 30000
	members := []string{"a", "b", "c", "d", "e"}
	owners := func(members []string) []string {
		all := make([]string, keys)
		for _, m := range members {
			owns := divide(members, m)
			for i := range all {
				if !owns(fmt.Sprintf("ns-%d/name-%d", i%7, i)) {
					continue
				}
				if all[i] != "" {
					t.Fatalf("key %d belongs to %s and %s", i, all[i], m)
				}
				all[i] = m
			}
		}
		return all
	}
	before, after := owners(members), owners(members[:4])
	count := map[string]int{}
	for i := range before {
		if before[i] == "" || after[i] == "" {
			t.Fatalf("key %d belongs to no member", i)
		}
		count[before[i]]++
		if before[i] != "e" && before[i] != after[i] {
			t.Fatalf("key %d moves from %s to %s, although %s stays", i, before[i], after[i], before[i])
		}
	}
	for m, n := range count {
		if fair := keys / len(members); math.Abs(float64(n-fair)) > 0.05*float64(fair) {
			t.Errorf("%s has %d keys, want about %d", m, n, fair)
		}
	}
	if divide(members, "x")("k") {
		t.Error("a key belongs to a process that is no member")
	}
}

func BenchmarkOwns(b *testing.B) {
	owns := divide([]string{"a", "b", "c"}, "a")
	for b.Loop() {
		owns("deployment-controller/default/web")
	}
}
