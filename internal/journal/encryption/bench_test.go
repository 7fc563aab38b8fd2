package encryption

import (
	"strings"
	"testing"
)

// The object of the benchmarks has 1.5 KB.
var (
	benchmarked = []string{"identity", "aesgcm/k", "aescbc/k", "secretbox/k"}
	payload     = strings.Repeat("x", 1500-len(objectOf(secret, "")))
)

func BenchmarkSeal(b *testing.B) {
	for _, provider := range benchmarked {
		b.Run(provider, func(b *testing.B) {
			c := mustLoad(b, "secrets: "+provider)
			raw := objectOf(secret, payload)
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Seal(secret, raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	for _, provider := range benchmarked {
		b.Run(provider, func(b *testing.B) {
			c := mustLoad(b, "secrets: "+provider)
			raw := objectOf(secret, payload)
			stored, err := c.Seal(secret, raw)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := c.Open(secret, stored); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestAllocations checks that objects that are not encrypted cost no allocations, and that others
// cost a few.
func TestAllocations(t *testing.T) {
	for provider, most := range map[string]struct{ seal, open float64 }{
		"identity": {0, 0}, "aesgcm/k": {6, 5}, "aescbc/k": {6, 4}, "secretbox/k": {5, 3},
	} {
		c := mustLoad(t, "secrets: "+provider)
		raw := objectOf(secret, payload)
		stored, err := c.Seal(secret, raw)
		if err != nil {
			t.Fatal(err)
		}
		seal := testing.AllocsPerRun(100, func() { c.Seal(secret, raw) })
		open := testing.AllocsPerRun(100, func() { c.Open(secret, stored) })
		t.Logf("%s: %v to seal, %v to open", provider, seal, open)
		if seal > most.seal || open > most.open {
			t.Errorf("%s: %v allocations to seal and %v to open, want %v and %v at most", provider, seal, open, most.seal, most.open)
		}
	}
}
