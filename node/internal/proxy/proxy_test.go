package proxy

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"runtime"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var key = types.NamespacedName{Namespace: "default", Name: "web"}

// free returns an address at which nothing listens. Each address of 127.96.0.0/12 is one of this
// machine on Linux only.
func free(t *testing.T) netip.AddrPort {
	t.Helper()
	ip := "127.96.0.5"
	if runtime.GOOS != "linux" {
		ip = "127.0.0.1"
	}
	l, err := net.Listen("tcp", ip+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// answering listens, and sends a text, and then what the client has sent until its end, to each
// client.
func answering(t *testing.T, text string) netip.AddrPort {
	t.Helper()
	return listening(t, func(c net.Conn) {
		all, _ := io.ReadAll(c)
		io.WriteString(c, text+string(all))
	})
}

// echoing listens, and sends back what each client sends.
func echoing(t *testing.T) netip.AddrPort {
	t.Helper()
	return listening(t, func(c net.Conn) { _, _ = io.Copy(c, c) })
}

// listening serves one connection after the other.
func listening(t *testing.T, serve func(net.Conn)) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serve(c)
			c.Close()
		}
	}()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// ask connects, sends a text, and returns the answer.
func ask(at netip.AddrPort, text string) (string, error) {
	c, err := net.Dial("tcp", at.String())
	if err != nil {
		return "", err
	}
	defer c.Close()
	if _, err := io.WriteString(c, text); err != nil {
		return "", err
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		return "", err
	}
	all, err := io.ReadAll(c)
	return string(all), err
}

func set(t *testing.T, p *Proxy, protocol corev1.Protocol, at netip.AddrPort, backends ...netip.AddrPort) {
	t.Helper()
	if err := p.Set(key, []Frontend{{Protocol: protocol, Address: at, Backends: backends}}); err != nil {
		t.Fatal(err)
	}
}

// TestTCP checks how connections are balanced, and when they are refused or reset.
func TestTCP(t *testing.T) {
	p := New(Network{})
	defer p.Close()
	at, dead := free(t), netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), free(t).Port())
	one, two := answering(t, "1:"), answering(t, "2:")
	refused := func(when string) {
		t.Helper()
		if got, err := ask(at, "x"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s: %q, %v, want a refused connection", when, got, err)
		}
	}
	set(t, p, corev1.ProtocolTCP, at)
	refused("without endpoints")
	set(t, p, corev1.ProtocolTCP, at, one, two)
	seen := map[string]int{}
	for range 10 {
		got, err := ask(at, "x")
		if err != nil {
			t.Fatal(err)
		}
		seen[got]++
	}
	if seen["1:x"] != 5 || seen["2:x"] != 5 {
		t.Errorf("the responses are %v", seen)
	}
	set(t, p, corev1.ProtocolTCP, at, dead, two)
	for range 4 {
		if got, err := ask(at, "y"); err != nil || got != "2:y" {
			t.Errorf("with an endpoint that refuses: %q, %v", got, err)
		}
	}
	set(t, p, corev1.ProtocolTCP, at, dead)
	if got, err := ask(at, "z"); err == nil {
		t.Errorf("all endpoints refuse: %q", got)
	}
	set(t, p, corev1.ProtocolTCP, at, at, one) // the Service is its own endpoint
	for range 4 {
		if got, err := ask(at, "c"); err != nil || got != "1:c" {
			t.Errorf("with a circle: %q, %v", got, err)
		}
	}
	set(t, p, corev1.ProtocolTCP, at, at)
	if got, err := ask(at, "c"); err == nil {
		t.Errorf("only a circle: %q", got)
	}
	set(t, p, corev1.ProtocolTCP, at)
	refused("after the last endpoint")
	set(t, p, corev1.ProtocolTCP, at, one)
	if err := p.Set(key, nil); err != nil {
		t.Fatal(err)
	}
	refused("after the Service")
}

// TestSet checks that a connection survives the Service, but not the Proxy, and that ports that
// cannot be listened at are errors.
func TestSet(t *testing.T) {
	p := New(Network{})
	defer p.Close()
	at, backend := free(t), echoing(t)
	set(t, p, corev1.ProtocolTCP, at, backend)
	other := types.NamespacedName{Namespace: "default", Name: "other"}
	if err := p.Set(other, []Frontend{{Protocol: corev1.ProtocolTCP, Address: at, Backends: []netip.AddrPort{backend}}}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("an address of another Service: %v", err)
	}
	far := netip.MustParseAddrPort("10.96.0.5:80")
	if err := p.Set(other, []Frontend{{Protocol: corev1.ProtocolTCP, Address: far, Backends: []netip.AddrPort{backend}}}); !errors.Is(err, ErrAddress) {
		t.Errorf("listen at 10.96.0.5: %v", err)
	}
	if err := p.Set(other, []Frontend{{Protocol: corev1.ProtocolTCP, Address: far}}); err != nil {
		t.Errorf("a Service without endpoints: %v", err)
	}

	c, err := net.Dial("tcp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	echoed := func() error {
		if _, err := io.WriteString(c, "text"); err != nil {
			return err
		}
		_, err := io.ReadFull(c, make([]byte, len("text")))
		return err
	}
	if err := echoed(); err != nil {
		t.Fatal(err)
	}
	if err := p.Set(key, nil); err != nil {
		t.Fatal(err)
	}
	if err := echoed(); err != nil {
		t.Errorf("a connection of a Service that is gone: %v", err)
	}
	p.Close()
	if err := echoed(); err == nil {
		t.Error("a connection survives the Proxy")
	}
	if err := p.Set(key, nil); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Set after Close: %v", err)
	}
}

// TestUDP checks that datagrams and replies are forwarded, and that a client gets another endpoint
// when its own is gone.
func TestUDP(t *testing.T) {
	p := New(Network{})
	defer p.Close()
	at := free(t)
	one, two := replying(t, "1:"), replying(t, "2:")
	set(t, p, corev1.ProtocolUDP, at, one)
	c, err := net.Dial("udp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ask := func(want string) {
		t.Helper()
		buffer := make([]byte, 100)
		for limit := time.Now().Add(time.Minute); time.Now().Before(limit); { // datagrams may be lost
			_, _ = c.Write([]byte("x"))
			_ = c.SetReadDeadline(time.Now().Add(time.Second))
			if n, err := c.Read(buffer); err == nil && string(buffer[:n]) == want {
				return
			}
		}
		t.Errorf("no reply %q", want)
	}
	ask("1:x")
	set(t, p, corev1.ProtocolUDP, at, one, two)
	ask("1:x")
	set(t, p, corev1.ProtocolUDP, at, two)
	ask("2:x")
	set(t, p, corev1.ProtocolUDP, at)
	for limit := time.Now().Add(time.Minute); ; {
		_, _ = c.Write([]byte("x"))
		_ = c.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := c.Read(make([]byte, 100)); errors.Is(err, syscall.ECONNREFUSED) {
			break
		}
		if time.Now().After(limit) {
			t.Fatal("datagrams without endpoints are not refused")
		}
	}
	set(t, p, corev1.ProtocolUDP, at, two)
	ask("2:x")
}

// replying sends a text and each datagram back.
func replying(t *testing.T, text string) netip.AddrPort {
	t.Helper()
	c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() {
		c.Close()
		<-done
	})
	go func() {
		defer close(done)
		buffer := make([]byte, 100)
		for {
			n, from, err := c.ReadFromUDPAddrPort(buffer)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				_, _ = c.WriteToUDPAddrPort([]byte(text+string(buffer[:n])), from)
			}
		}
	}()
	return c.LocalAddr().(*net.UDPAddr).AddrPort()
}
