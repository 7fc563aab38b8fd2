package podnet

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/kapok-dev/kapok/node/internal/thread"

	"golang.org/x/sys/unix"
)

// loopback are the addresses that the kernel keeps in a namespace unless a route leads elsewhere.
var loopback = netip.MustParsePrefix("127.0.0.0/8")

// A Network is made by New. It is safe for concurrent use.
type Network struct {
	options Options
	hub     *os.File
	outside error

	mu   sync.Mutex
	pods map[string]*pod // by the UIDs of pods
}

type pod struct {
	address   netip.Addr
	namespace *os.File
}

// New makes the hub of a network.
func New(o Options) (*Network, error) {
	if !o.Pods.Addr().Is4() || o.Pods.Bits() < 16 || o.Pods.Bits() > 30 || !o.Services.Addr().Is4() {
		return nil, fmt.Errorf("networks of pods %s and Services %s: want IPv4, and 16 to 30 bits for pods", o.Pods, o.Services)
	}
	n := &Network{options: o, pods: map[string]*pod{}}
	var err error
	if n.hub, err = newNamespace(n.setUp); err != nil {
		return nil, err
	}
	return n, nil
}

// Outside returns why connections of pods do not reach Options.Outgoing, nil if they do.
func (n *Network) Outside() error { return n.outside }

// setUp sets up the hub, in its namespace.
func (n *Network) setUp() error {
	for _, name := range []string{"ip_forward", "conf/all/route_localnet"} {
		if err := setting(name, "1"); err != nil {
			return err
		}
	}
	l, err := openNetlink(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer l.close()
	if err := l.up("lo"); err != nil {
		return fmt.Errorf("start the loopback interface: %w", err)
	}
	if err := l.addAddress(1, n.options.Gateway()); err != nil {
		return fmt.Errorf("add the address %s: %w", n.options.Gateway(), err)
	}
	// One table has all routes, so that the longest prefix counts.
	for _, r := range []route{
		{to: netip.PrefixFrom(netip.IPv4Unspecified(), 0), kind: unix.RTN_LOCAL, index: 1},
		{to: n.options.Pods.Masked(), kind: unix.RTN_UNREACHABLE},
	} {
		r.table = unix.RT_TABLE_LOCAL
		if err := l.addRoute(r); err != nil {
			return fmt.Errorf("add the route to %s: %w", r.to, err)
		}
	}
	if err := intercept(n.options.Outgoing(), n.options.Pods, loopback); err != nil {
		n.outside = fmt.Errorf("add a rule with TPROXY to nf_tables: %w", err)
	}
	return nil
}

// setting changes a setting of IPv4 of the namespace of this thread.
func setting(name, value string) error {
	return os.WriteFile(filepath.Join("/proc/sys/net/ipv4", name), []byte(value), 0)
}

// interfaceOf returns the name of the interface of a pod in the hub.
func interfaceOf(a netip.Addr) string {
	b := a.As4()
	return fmt.Sprintf("p%04x", binary.BigEndian.Uint16(b[2:]))
}

// Pod returns the namespace of a pod, which it makes if there is none. The file belongs to the
// Network.
func (n *Network) Pod(uid string, a netip.Addr) (*os.File, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.pods[uid]; p != nil && p.address == a {
		return p.namespace, nil
	}
	if !n.options.Pods.Contains(a) || a == n.options.Gateway() {
		return nil, fmt.Errorf("address %s: want one of pods, %s", a, n.options.Pods)
	}
	for other, p := range n.pods {
		if other == uid || p.address == a { // that of another one has ended
			if err := n.removeLocked(other); err != nil {
				return nil, err
			}
		}
	}
	namespace, err := newNamespace(setPodUp)
	if err == nil {
		err = errors.Join(n.connect(a, namespace), inside(namespace, func() error { return n.setRoutes(a) }))
	}
	if err != nil {
		if namespace != nil {
			namespace.Close()
		}
		return nil, fmt.Errorf("make the network of a pod: %w", err)
	}
	n.pods[uid] = &pod{a, namespace}
	return namespace, nil
}

// setPodUp sets up the namespace of a pod, before it is connected.
func setPodUp() error {
	if err := setting("conf/all/route_localnet", "1"); err != nil {
		return err
	}
	// Ports below 1024 and ping need permissions that containers do not have here. What they do
	// with them stays in the network of their pod.
	if err := errors.Join(setting("ip_unprivileged_port_start", "0"), setting("ping_group_range", "0 0")); err != nil {
		return err
	}
	l, err := openNetlink(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer l.close()
	return l.up("lo")
}

// connect connects the namespace of a pod with the hub.
func (n *Network) connect(a netip.Addr, namespace *os.File) error {
	name := interfaceOf(a)
	return inside(n.hub, func() error {
		l, err := openNetlink(unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		defer l.close()
		if err := l.addPair(name, podInterface, namespace); err != nil {
			return fmt.Errorf("add the interface %s: %w", name, err)
		}
		if err := l.up(name); err != nil {
			return fmt.Errorf("start the interface %s: %w", name, err)
		}
		i, err := net.InterfaceByName(name)
		if err != nil {
			return err
		}
		return l.addRoute(route{to: netip.PrefixFrom(a, 32), kind: unix.RTN_UNICAST, table: unix.RT_TABLE_LOCAL, index: i.Index})
	})
}

const podInterface = "eth0"

// setRoutes gives a pod its address and routes, in its namespace.
func (n *Network) setRoutes(a netip.Addr) error {
	l, err := openNetlink(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer l.close()
	i, err := net.InterfaceByName(podInterface)
	if err != nil {
		return err
	}
	if err := errors.Join(l.addAddress(i.Index, a), l.up(podInterface)); err != nil {
		return err
	}
	all := []route{{to: netip.PrefixFrom(netip.IPv4Unspecified(), 0)}}
	if loopback.Overlaps(n.options.Services) {
		all = append(all, route{to: n.options.Services.Masked(), table: unix.RT_TABLE_LOCAL})
	}
	for _, r := range all {
		r.kind, r.index, r.gateway = unix.RTN_UNICAST, i.Index, n.options.Gateway()
		if err := l.addRoute(r); err != nil {
			return fmt.Errorf("add the route to %s: %w", r.to, err)
		}
	}
	return nil
}

// Remove removes the namespace of a pod from the network, if there is one. Processes in it lose
// their connections.
func (n *Network) Remove(uid string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.removeLocked(uid)
}

func (n *Network) removeLocked(uid string) error {
	p := n.pods[uid]
	if p == nil {
		return nil
	}
	delete(n.pods, uid)
	return errors.Join(p.namespace.Close(), inside(n.hub, func() error {
		l, err := openNetlink(unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		defer l.close()
		if err := l.remove(interfaceOf(p.address)); err != nil && !errors.Is(err, unix.ENODEV) {
			return err
		}
		return nil
	}))
}

// Open returns a socket in the hub.
func (n *Network) Open(ctx context.Context, s Socket) (*os.File, error) {
	var f *os.File
	err := inside(n.hub, func() (err error) {
		f, err = s.open(ctx)
		return err
	})
	return f, err
}

func (s *Socket) open(ctx context.Context) (*os.File, error) {
	control := func(_, _ string, c syscall.RawConn) (err error) {
		set := func(level, option int) func(uintptr) {
			return func(fd uintptr) { err = errors.Join(err, unix.SetsockoptInt(int(fd), level, option, 1)) }
		}
		var failed error
		if s.Network == "udp" { // one socket listens, and others reply to clients from the same address
			failed = c.Control(set(unix.SOL_SOCKET, unix.SO_REUSEADDR))
		}
		if s.Transparent {
			failed = errors.Join(failed, c.Control(set(unix.SOL_IP, unix.IP_TRANSPARENT)))
		}
		if s.Transparent && s.Network == "udp" && s.Listen.IsValid() {
			failed = errors.Join(failed, c.Control(set(unix.SOL_IP, unix.IP_RECVORIGDSTADDR)))
		}
		return errors.Join(failed, err)
	}
	var c interface {
		File() (*os.File, error)
		Close() error
	}
	switch s.Network {
	case "tcp", "udp":
	default:
		return nil, fmt.Errorf("network %q: want tcp or udp", s.Network)
	}
	switch {
	case s.Listen.IsValid() && s.Network == "tcp":
		l, err := (&net.ListenConfig{Control: control}).Listen(ctx, "tcp4", s.Listen.String())
		if err != nil {
			return nil, err
		}
		c = l.(*net.TCPListener)
	case s.Listen.IsValid():
		l, err := (&net.ListenConfig{Control: control}).ListenPacket(ctx, "udp4", s.Listen.String())
		if err != nil {
			return nil, err
		}
		c = l.(*net.UDPConn)
	default:
		d := net.Dialer{Control: control}
		if s.From.IsValid() && s.Network == "udp" {
			d.LocalAddr = net.UDPAddrFromAddrPort(s.From)
		}
		conn, err := d.DialContext(ctx, s.Network+"4", s.Dial.String())
		if err != nil {
			return nil, err
		}
		c = conn.(interface {
			File() (*os.File, error)
			Close() error
		})
	}
	defer c.Close()
	return c.File()
}

// Destination returns the address to which a datagram was sent that a transparent socket has
// received, by its control messages.
func Destination(control []byte) (netip.AddrPort, bool) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return netip.AddrPort{}, false
	}
	for i := range messages {
		if a, err := unix.ParseOrigDstAddr(&messages[i]); err == nil {
			if v4, ok := a.(*unix.SockaddrInet4); ok {
				return netip.AddrPortFrom(netip.AddrFrom4(v4.Addr), uint16(v4.Port)), true
			}
		}
	}
	return netip.AddrPort{}, false
}

// newNamespace makes a namespace, and runs a function in it.
func newNamespace(do func() error) (namespace *os.File, err error) {
	thread.Run(func() {
		if err = unix.Unshare(unix.CLONE_NEWNET); err != nil {
			err = fmt.Errorf("make a namespace of networks: %w", os.NewSyscallError("unshare", err))
			return
		}
		if namespace, err = os.Open("/proc/thread-self/ns/net"); err == nil {
			err = do()
		}
	})
	if err != nil && namespace != nil {
		namespace.Close()
		namespace = nil
	}
	return namespace, err
}

// inside runs a function in a thread of a namespace.
func inside(namespace *os.File, do func() error) (err error) {
	thread.Run(func() {
		if err = Enter(namespace); err == nil {
			err = do()
		}
	})
	return err
}

// Enter lets this thread, and the processes that it starts, enter a namespace.
func Enter(namespace *os.File) error {
	if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
		return &fs.PathError{Op: "setns", Path: namespace.Name(), Err: err}
	}
	return nil
}
