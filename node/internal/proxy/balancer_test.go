package proxy

import (
	"net/netip"
	"slices"
	"testing"
	"time"
)

func addresses(all ...string) (out []netip.AddrPort) {
	for _, a := range all {
		out = append(out, netip.MustParseAddrPort(a))
	}
	return out
}

// TestBalance checks the order of endpoints without affinity, and that it goes on when they change.
func TestBalance(t *testing.T) {
	var b balancer
	client := netip.MustParseAddr("127.0.0.1")
	if _, ok := b.pick(client, nil, time.Time{}); ok {
		t.Error("a balancer without endpoints picks one")
	}
	all := addresses("127.77.0.1:1", "127.77.0.2:1", "127.77.0.3:1")
	b.set(all, 0)
	seen := map[netip.AddrPort]int{}
	for range 300 {
		picked, _ := b.pick(client, nil, time.Time{})
		seen[picked]++
	}
	for _, a := range all {
		if seen[a] != 100 {
			t.Errorf("%s has been picked %d times of 300, want 100", a, seen[a])
		}
	}
	b.set(all[:1], 0)
	if picked, ok := b.pick(client, nil, time.Time{}); !ok || picked != all[0] {
		t.Errorf("the only endpoint: %s, %t", picked, ok)
	}
	if picked, ok := b.pick(client, all[:1], time.Time{}); ok {
		t.Errorf("%s is picked again", picked)
	}
}

// TestAffinity checks that a client keeps its endpoint until the time is over, or the endpoint is
// gone or refuses.
func TestAffinity(t *testing.T) {
	var b balancer
	all := addresses("127.77.0.1:1", "127.77.0.2:1", "127.77.0.3:1")
	b.set(all, time.Minute)
	one, two := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2")
	now := time.Unix(0, 0)
	first, _ := b.pick(one, nil, now)
	other, _ := b.pick(two, nil, now)
	if other == first {
		t.Errorf("both clients have %s", first)
	}
	for range 5 {
		now = now.Add(50 * time.Second) // each connection extends the time
		if again, _ := b.pick(one, nil, now); again != first {
			t.Errorf("at %s: %s, want %s", now, again, first)
		}
	}
	refused, _ := b.pick(one, []netip.AddrPort{first}, now)
	if again, _ := b.pick(one, nil, now); refused == first || again != refused {
		t.Errorf("after a refusal of %s: %s, then %s", first, refused, again)
	}
	b.set(slices.DeleteFunc(slices.Clone(all), func(a netip.AddrPort) bool { return a == refused }), time.Minute)
	if left, _ := b.pick(one, nil, now); left == refused {
		t.Errorf("%s is picked although it is gone", left)
	}
	now = now.Add(time.Hour)
	next, _ := b.pick(one, nil, now)
	later, _ := b.pick(one, nil, now.Add(time.Minute))
	if next == later {
		t.Errorf("the client keeps %s after its time", next)
	}
}
