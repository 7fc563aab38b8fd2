package podnet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const insideVariable = "KAPOK_TEST_INSIDE"

// isInside runs the calling test again as the first process of a namespace of users, in which it
// may make networks, and reports whether this is that process.
func isInside(t *testing.T) bool {
	t.Helper()
	if os.Getenv(insideVariable) != "" {
		return true
	}
	c := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	c.Env = append(os.Environ(), insideVariable+"=1")
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
	}
	out, err := c.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Skipf("this system does not permit namespaces of users: %v", err)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
	return false
}

// newNetwork makes a network with two pods, or skips a test if the system does not permit it.
func newNetwork(t *testing.T) (n *Network, one, two *os.File) {
	t.Helper()
	n, err := New(Options{Pods: netip.MustParsePrefix("10.77.0.0/16"), Services: netip.MustParsePrefix("127.96.0.0/12")})
	if err == nil {
		one, err = n.Pod("one", netip.MustParseAddr("10.77.0.2"))
	}
	for _, denied := range []error{unix.EPERM, unix.EACCES, unix.EROFS, unix.ENOSPC, unix.EOPNOTSUPP, unix.ENODEV} {
		if errors.Is(err, denied) {
			t.Skipf("this system does not permit networks: %v", err)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if two, err = n.Pod("two", netip.MustParseAddr("10.77.0.3")); err != nil {
		t.Fatal(err)
	}
	return n, one, two
}

// listen sends a text to each client at a port of a pod.
func listen(t *testing.T, namespace *os.File, at, text string) {
	t.Helper()
	var l net.Listener
	err := inside(namespace, func() (err error) {
		l, err = net.Listen("tcp", at)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	greet(t, l, func(net.Conn) string { return text })
}

// greet sends a text to each client of a listener.
func greet(t *testing.T, l net.Listener, text func(net.Conn) string) {
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
			_, _ = io.WriteString(c, text(c))
			c.Close()
		}
	}()
}

// ask returns what a listener sends to a client in a namespace.
func ask(namespace *os.File, at string) (string, error) {
	var c net.Conn
	err := inside(namespace, func() (err error) {
		c, err = net.DialTimeout("tcp", at, 10*time.Second)
		return err
	})
	if err != nil {
		return "", err
	}
	defer c.Close()
	text, err := io.ReadAll(c)
	return string(text), err
}

// open returns a listener in the hub.
func open(t *testing.T, n *Network, s Socket) net.Listener {
	t.Helper()
	f, err := n.Open(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	l, err := net.FileListener(f)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestNetwork connects pods with each other, with Services, with the node and with other networks.
func TestNetwork(t *testing.T) {
	if !isInside(t) {
		return
	}
	n, one, two := newNetwork(t)
	listen(t, one, ":80", "one")
	listen(t, two, ":80", "two")
	greet(t, open(t, n, Socket{Network: "tcp", Listen: netip.MustParseAddrPort("127.96.0.5:443")}), func(c net.Conn) string {
		return "service for " + c.RemoteAddr().(*net.TCPAddr).IP.String()
	})
	for _, test := range []struct {
		from *os.File
		to   string
		want string // "": refused
	}{
		{one, "10.77.0.3:80", "two"},
		{two, "10.77.0.2:80", "one"},
		{one, "10.77.0.2:80", "one"},
		{one, "127.0.0.1:80", "one"},
		{two, "127.96.0.5:443", "service for 10.77.0.3"},
		{two, "127.96.0.5:444", ""},
		{two, "127.96.0.6:443", ""},
		{one, "10.77.0.3:81", ""},
		{one, "10.77.9.9:80", ""},
	} {
		got, err := ask(test.from, test.to)
		if got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%s: got %q, %v, want %q", test.to, got, err, test.want)
		}
	}
	if _, err := n.Open(t.Context(), Socket{Network: "tcp", Dial: netip.MustParseAddrPort("10.77.0.2:81")}); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("a port of a pod that is closed: %v", err)
	}
	f, err := n.Open(t.Context(), Socket{Network: "tcp", Dial: netip.MustParseAddrPort("10.77.0.2:80")})
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.FileConn(f)
	f.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if text, err := io.ReadAll(c); string(text) != "one" {
		t.Errorf("the node has read %q, %v, from a pod", text, err)
	}
}

// TestOutgoing connects a pod with an address of another network: the socket for it sees the
// address.
func TestOutgoing(t *testing.T) {
	if !isInside(t) {
		return
	}
	n, one, _ := newNetwork(t)
	if _, err := ask(one, "192.0.2.7:443"); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("without a socket: %v, want a refused connection", err)
	}
	if err := n.Outside(); err != nil {
		t.Skip(err)
	}
	greet(t, open(t, n, Socket{Network: "tcp", Listen: n.options.Outgoing(), Transparent: true}), func(c net.Conn) string { return c.LocalAddr().String() })
	for _, to := range []string{"192.0.2.7:443", "8.8.8.8:53"} {
		if got, err := ask(one, to); got != to {
			t.Errorf("the socket sees %q, %v, want %q", got, err, to)
		}
	}
	if got, err := ask(one, "127.96.0.5:80"); err == nil {
		t.Errorf("a Service without a socket: got %q", got)
	}
}

// TestOutgoingUDP replies to a datagram from the address to which it was sent, also if another
// socket has it.
func TestOutgoingUDP(t *testing.T) {
	if !isInside(t) {
		return
	}
	n, one, _ := newNetwork(t)
	if err := n.Outside(); err != nil {
		t.Skip(err)
	}
	to := netip.MustParseAddrPort("10.96.0.5:53")
	socket := func(s Socket) *net.UDPConn {
		t.Helper()
		s.Network = "udp"
		f, err := n.Open(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		c, err := net.FilePacketConn(f)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c.(*net.UDPConn)
	}
	socket(Socket{Listen: to})
	outgoing := socket(Socket{Listen: n.options.Outgoing(), Transparent: true})
	var client net.Conn
	err := inside(one, func() (err error) {
		client, err = net.Dial("udp", to.String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := io.WriteString(client, "query"); err != nil {
		t.Fatal(err)
	}
	buffer, control := make([]byte, 100), make([]byte, 100)
	k, m, _, from, err := outgoing.ReadMsgUDPAddrPort(buffer, control)
	if got, ok := Destination(control[:m]); err != nil || !ok || got != to || string(buffer[:k]) != "query" {
		t.Fatalf("got %q for %s, %t, %v", buffer[:k], got, ok, err)
	}
	reply := socket(Socket{From: to, Dial: netip.AddrPortFrom(from.Addr().Unmap(), from.Port()), Transparent: true})
	if _, err := io.WriteString(reply, "reply"); err != nil {
		t.Fatal(err)
	}
	if k, err := client.Read(buffer); err != nil || string(buffer[:k]) != "reply" {
		t.Errorf("the pod has received %q, %v", buffer[:k], err)
	}
	if _, err := io.WriteString(client, "more"); err != nil {
		t.Fatal(err)
	}
	if k, err := reply.Read(buffer); err != nil || string(buffer[:k]) != "more" {
		t.Errorf("the socket for replies has received %q, %v", buffer[:k], err)
	}
}

// TestRemove gives the address of a pod to another one.
func TestRemove(t *testing.T) {
	if !isInside(t) {
		return
	}
	n, one, two := newNetwork(t)
	listen(t, one, ":80", "one")
	if err := errors.Join(n.Remove("one"), n.Remove("one"), n.Remove("absent")); err != nil {
		t.Fatal(err)
	}
	if got, err := ask(two, "10.77.0.2:80"); err == nil {
		t.Errorf("a pod that is gone: got %q", got)
	}
	for _, uid := range []string{"three", "four"} { // the second one takes the place of the first one
		p, err := n.Pod(uid, netip.MustParseAddr("10.77.0.2"))
		if err != nil {
			t.Fatal(err)
		}
		listen(t, p, ":80", uid)
		if got, err := ask(two, "10.77.0.2:80"); got != uid {
			t.Errorf("got %q, %v, want %q", got, err, uid)
		}
	}
	for _, bad := range []string{"10.77.0.1", "10.78.0.2"} {
		if _, err := n.Pod("bad", netip.MustParseAddr(bad)); err == nil {
			t.Errorf("a pod has the address %s", bad)
		}
	}
	moved, err := n.Pod("two", netip.MustParseAddr("10.77.0.9"))
	if err != nil {
		t.Fatal(err)
	}
	listen(t, moved, ":80", "moved")
	for address, want := range map[string]string{"10.77.0.9:80": "moved", "10.77.0.3:80": ""} {
		if got, err := ask(moved, address); got != want || (err == nil) != (want != "") {
			t.Errorf("%s of a pod that has another address now: got %q, %v, want %q", address, got, err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := n.Open(ctx, Socket{Network: "tcp", Dial: netip.MustParseAddrPort("10.77.0.9:80")}); err == nil {
		t.Error("a socket although the context has ended")
	}
	if _, err := n.Open(t.Context(), Socket{Network: "sctp"}); err == nil {
		t.Error("a socket of SCTP")
	}
}

func TestOptions(t *testing.T) {
	o := Options{Pods: netip.MustParsePrefix("10.77.0.0/16")}
	if got := fmt.Sprint(o.Gateway(), " ", o.Outgoing()); got != "10.77.0.1 10.77.0.1:1" {
		t.Errorf("got %s", got)
	}
}
