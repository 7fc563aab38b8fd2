package nodeipam

import (
	"math/rand/v2"
	"net/netip"
	"testing"
)

// TestNumbers compares the numbers of ranges with a walk from address to address.
func TestNumbers(t *testing.T) {
	for _, tc := range []struct {
		cluster string
		bits    int
	}{
		{"10.244.0.0/16", 24}, {"10.244.0.0/20", 29}, {"0.0.0.0/4", 12}, {"255.255.255.0/24", 32}, {"10.0.0.0/24", 24},
		{"fd00:1::/48", 64}, {"fd00:1:2:fff0::/60", 64}, {"fd00:1:2:3000::/56", 72}, {"fd00:1:2:3::/64", 80},
		{"fd00:1:2:3:4::/80", 96}, {"ffff:ffff:ffff:ffff:ffff:ffff:ffff:0/112", 128}, {"fd00::/62", 68},
	} {
		s := newSet(netip.MustParsePrefix(tc.cluster), tc.bits)
		want := netip.PrefixFrom(s.cluster.Addr(), tc.bits)
		for i := range s.total {
			if got := s.at(i); got != want {
				t.Fatalf("%s/%d: range %d is %v, want %v", tc.cluster, tc.bits, i, got, want)
			}
			if got := s.span(want); got != (span{i, i + 1}) {
				t.Fatalf("%s/%d: %v is %v, want %d", tc.cluster, tc.bits, want, got, i)
			}
			last := lastOf(want)
			if last.Next().IsValid() {
				want = netip.PrefixFrom(last.Next(), tc.bits)
			}
		}
		if lastOf(s.at(s.total-1)) != lastOf(s.cluster) {
			t.Errorf("%s/%d: the last range is %v", tc.cluster, tc.bits, s.at(s.total-1))
		}
	}
}

// lastOf returns the last address of a range.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// TestSpans compares spans with a test of each range.
func TestSpans(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, cluster := range []string{"10.244.0.0/18", "fd00:1::/58"} {
		p := netip.MustParsePrefix(cluster)
		s := newSet(p, p.Bits()+6)
		for range 2000 {
			b := p.Addr().AsSlice()
			for i := range 4 {
				few, of := byte(r.IntN(256)), byte(r.IntN(256)) // together, a quarter of the bits
				b[p.Bits()/8-1+i%2] ^= few & of
			}
			a, _ := netip.AddrFromSlice(b)
			other := netip.PrefixFrom(a, p.Bits()-4+r.IntN(14)).Masked()
			got := s.span(other)
			for i := range s.total {
				if want := s.at(i).Overlaps(other); want != (i >= got.begin && i < got.end) {
					t.Fatalf("%v in %v: %v, and range %d overlaps: %t", other, p, got, i, want)
				}
			}
		}
	}
}
