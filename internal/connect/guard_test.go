package connect

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"

	"github.com/kapok-dev/kapok/internal/forward"
)

// TestGuard checks the addresses that a Connector does not connect to.
func TestGuard(t *testing.T) {
	const self = 6443
	for _, test := range []struct {
		address  string
		self     string
		loopback bool
		allowed  bool
	}{
		{"192.0.2.1:10250", "", false, true},
		{"10.0.0.1:80", "", false, true},
		{"[2001:db8::1]:80", "", false, true},
		{"[fd00::1]:80", "", false, true},
		{"127.0.0.1:80", "", false, false},
		{"127.1.2.3:80", "", false, false},
		{"[::1]:80", "", false, false},
		{"[::ffff:127.0.0.1]:80", "", false, false},
		{"169.254.169.254:80", "", false, false},
		{"[fe80::1]:80", "", true, false},
		{"[fe80::1%lo]:80", "", true, false},
		{"0.0.0.0:80", "", true, false},
		{"0.1.2.3:80", "", true, false},
		{"[::]:80", "", true, false},
		{"224.0.0.1:80", "", true, false},
		{"[ff02::1]:80", "", true, false},
		{"255.255.255.255:80", "", true, false},
		{"host:80", "", true, false}, // never: names are resolved before
		{"127.0.0.1:80", "", true, true},
		{"[::1]:80", "127.0.0.1:6443", true, true},
		{"127.0.0.1:6443", "127.0.0.1:6443", true, false},
		{"[::ffff:127.0.0.1]:6443", "127.0.0.1:6443", true, false},
		{"127.0.0.1:6443", "0.0.0.0:6443", true, false},
		{"[::1]:6443", "[::]:6443", true, false},
		{"192.0.2.1:6443", "192.0.2.1:6443", false, false},
		{"192.0.2.1:6444", "192.0.2.1:6443", false, true},
		{"192.0.2.2:6443", "192.0.2.1:6443", false, true},
		{"192.0.2.1:6443", "0.0.0.0:6443", false, true}, // no address of this machine
	} {
		g := &guard{loopback: test.loopback}
		if test.self != "" {
			g.self = netip.MustParseAddrPort(test.self)
		}
		if err := g.control("tcp", test.address, nil); (err == nil) != test.allowed {
			t.Errorf("%s from %q, loopback %t: %v", test.address, test.self, test.loopback, err)
		}
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	g := &guard{loopback: true, self: netip.MustParseAddrPort("[::]:6443")}
	for _, a := range addresses {
		ip := netip.MustParsePrefix(a.String()).Addr()
		if err := g.check(netip.AddrPortFrom(ip, self)); err == nil {
			t.Errorf("%s, which is an address of this machine, is allowed at the port of this server", ip)
		}
	}
}

// TestDialPod connects with pods by a function, and with no address that is not one of theirs.
func TestDialPod(t *testing.T) {
	errPod := errors.New("a pod")
	pods := func(ip netip.Addr) forward.Dial {
		if ip != netip.MustParseAddr("10.77.0.2") {
			return nil
		}
		return func(context.Context, string, string) (net.Conn, error) { return nil, errPod }
	}
	dial := withPods(pods, (&net.Dialer{Control: (&guard{}).control}).DialContext)
	for address, want := range map[string]error{"10.77.0.2:80": errPod, "127.0.0.1:80": errNotAllowed, "169.254.169.254:80": errNotAllowed} {
		if _, err := dial(t.Context(), "tcp", address); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", address, err, want)
		}
	}
}
