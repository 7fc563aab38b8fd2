package server

import (
	"net/netip"
	"testing"
)

func TestAdvertised(t *testing.T) {
	for listening, want := range map[string]string{
		"":               "invalid AddrPort",
		"127.0.0.1:6443": "127.0.0.1:6443",
		"10.1.2.3:7":     "10.1.2.3:7",
		"[::1]:6443":     "[::1]:6443",
	} {
		if got := advertised(listening, netip.Addr{}).String(); got != want {
			t.Errorf("%q: %s, want %s", listening, got, want)
		}
	}
	// The addresses of a machine differ, but clients must be able to reach the advertised one.
	for _, listening := range []string{"0.0.0.0:6443", "[::]:6443"} {
		at := advertised(listening, netip.Addr{})
		if at.IsValid() && (at.Addr().IsUnspecified() || at.Addr().IsLoopback() || at.Port() != 6443) {
			t.Errorf("%q: %s", listening, at)
		}
	}
}
