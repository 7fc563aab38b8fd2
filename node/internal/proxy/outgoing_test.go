package proxy

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestOutgoing connects clients with the address that they have asked for, here that of the
// listener: it is one of this machine, and rejected, until a Service has it.
func TestOutgoing(t *testing.T) {
	p := New(Network{})
	defer p.Close()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.Outgoing(l, func(context.Context, string, string) (net.Conn, error) {
			t.Error("an address of this machine is dialed")
			return nil, errors.New("rejected")
		})
	}()
	at := l.Addr().(*net.TCPAddr).AddrPort()
	if got, err := ask(at, "x"); err == nil {
		t.Errorf("an address of this machine: got %q", got)
	}
	b := &balancer{}
	b.set([]netip.AddrPort{answering(t, "1:")}, 0)
	p.own.Store(place{corev1.ProtocolTCP, at}, b)
	if got, err := ask(at, "x"); err != nil || got != "1:x" {
		t.Errorf("an address of a Service: got %q, %v", got, err)
	}
	l.Close()
	<-done
}

// TestOutgoingUDP sends the datagrams of a client to the address that their control messages have.
func TestOutgoingUDP(t *testing.T) {
	p := New(Network{})
	defer p.Close()
	to := netip.MustParseAddrPort("192.0.2.1:53")
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	far := replying(t, "far:")
	d := Datagrams{
		Conn: conn,
		To:   func([]byte) (netip.AddrPort, bool) { return to, true },
		Reply: func(from, client netip.AddrPort) (*net.UDPConn, error) {
			if from != to {
				t.Errorf("the reply comes from %s, want %s", from, to)
			}
			return net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(client))
		},
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.OutgoingUDP(d, func(ctx context.Context, network, address string) (net.Conn, error) {
			if address != to.String() {
				t.Errorf("dialed %s, want %s", address, to)
			}
			return (&net.Dialer{}).DialContext(ctx, network, far.String())
		})
	}()
	client, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.WriteTo([]byte("x"), conn.LocalAddr()); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 100)
	if n, _, err := client.ReadFrom(buffer); err != nil || string(buffer[:n]) != "far:x" {
		t.Errorf("got %q, %v", buffer[:n], err)
	}
	conn.Close()
	<-done
}

func TestLeaves(t *testing.T) {
	for text, want := range map[string]bool{
		"192.0.2.1": true, "10.0.0.1": true, "169.254.169.254": true, "127.0.0.1": false, "0.0.0.0": false, "224.0.0.1": false, "255.255.255.255": false,
	} {
		if got := Leaves(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: got %t, want %t", text, got, want)
		}
	}
}

// TestReset makes the sockets again.
func TestReset(t *testing.T) {
	p := New(Network{})
	defer p.Close()
	at := free(t)
	set(t, p, corev1.ProtocolTCP, at, answering(t, "1:"))
	if err := p.Reset(); err != nil {
		t.Fatal(err)
	}
	if got, err := ask(at, "x"); err != nil || got != "1:x" {
		t.Errorf("got %q, %v", got, err)
	}
}
