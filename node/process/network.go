package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/node/internal/beneath"
	"github.com/kapok-dev/kapok/node/internal/podnet"
	"github.com/kapok-dev/kapok/node/internal/proc"
	"github.com/kapok-dev/kapok/node/internal/proxy"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

var (
	// networkPods is the range of the addresses of pods in a network of their own. Only pods
	// see it.
	networkPods = netip.MustParsePrefix("10.77.0.0/16")
	// DefaultServices is the default range of the addresses of Services, which are loopback
	// addresses of this machine.
	DefaultServices = netip.MustParsePrefix("127.96.0.0/12")
)

const (
	systemResolver = "/etc/resolv.conf"
	domainPort     = 53
)

// kubernetesService is the Service of the API server.
var kubernetesService = types.NamespacedName{Namespace: corev1.NamespaceDefault, Name: "kubernetes"}

// A network is that of pods with namespaces of their own: package podnet. This process connects it
// with the machine: it listens there at the addresses of Services, answers queries for names by the
// servers of the machine, and opens the connections of pods to other networks.
type network struct {
	options podnet.Options
	runtime *proc.Runtime
	proxy   *proxy.Proxy // listens in the network of pods
	log     *slog.Logger
	ctx     context.Context
	group   sync.WaitGroup

	mu       sync.Mutex
	outgoing []interface{ Close() error } // the sockets for other networks
}

// openNetwork makes the network of pods, or adopts the one that the Node before has left behind.
func openNetwork(ctx context.Context, r *proc.Runtime, services netip.Prefix, log *slog.Logger) (*network, error) {
	n := &network{options: podnet.Options{Pods: networkPods, Services: services}, runtime: r, log: log, ctx: ctx}
	n.proxy = proxy.New(proxy.Network{ListenTCP: n.listenTCP, ListenUDP: n.listenUDP, Dial: n.dial})
	if err := n.begin(); err != nil {
		n.proxy.Close()
		return nil, err
	}
	if err := n.resolve(); err != nil {
		log.Warn("Queries of pods for names of other networks fail", "error", err)
	}
	return n, nil
}

// begin makes the network, and the sockets for connections to others.
func (n *network) begin() error {
	outside, err := n.runtime.Network(n.ctx, n.options)
	if err != nil {
		return err
	}
	if outside == nil {
		outside = n.leave()
	}
	if outside != nil {
		n.log.Warn("Pods reach other pods and Services, but no other networks", "error", outside)
	}
	return nil
}

// again makes the network again after its end.
func (n *network) again() {
	if n == nil || n.ctx.Err() != nil {
		return
	}
	n.log.Error("The process that has the network of pods was killed: their containers are killed, and restarted by their policy")
	if err := errors.Join(n.begin(), n.proxy.Reset()); err != nil {
		n.log.Error("Cannot make the network of pods again", "error", err)
	}
}

func (n *network) close() {
	n.mu.Lock()
	for _, c := range n.outgoing {
		c.Close()
	}
	n.mu.Unlock()
	n.proxy.Close()
	n.group.Wait()
}

// leave opens the sockets for connections to other networks.
func (n *network) leave() error {
	f, err := n.runtime.Socket(n.ctx, podnet.Socket{Network: "tcp", Listen: n.options.Outgoing(), Transparent: true})
	if err != nil {
		return err
	}
	l, err := listenerOf(f)
	if err != nil {
		return err
	}
	c, err := n.packets(podnet.Socket{Network: "udp", Listen: n.options.Outgoing(), Transparent: true})
	if err != nil {
		l.Close()
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.outgoing { // of the network before
		c.Close()
	}
	n.outgoing = []interface{ Close() error }{l, c}
	n.group.Go(func() { n.proxy.Outgoing(l, n.dialOutside) })
	reply := func(from, to netip.AddrPort) (*net.UDPConn, error) {
		f, err := n.runtime.Socket(n.ctx, podnet.Socket{Network: "udp", From: from, Dial: to, Transparent: true})
		if err != nil {
			return nil, err
		}
		defer f.Close()
		c, err := net.FileConn(f)
		if err != nil {
			return nil, err
		}
		return c.(*net.UDPConn), nil
	}
	n.group.Go(func() {
		n.proxy.OutgoingUDP(proxy.Datagrams{Conn: c, To: podnet.Destination, Reply: reply}, n.dialOutside)
	})
	return nil
}

// dialOutside connects with an address of another network. Those of this one, such as that of the
// sockets for other networks, may be those of other machines there.
func (n *network) dialOutside(ctx context.Context, network, address string) (net.Conn, error) {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, err
	}
	if n.has(to.Addr()) {
		return nil, fmt.Errorf("dial %s: an address of pods", address)
	}
	var d net.Dialer
	return d.DialContext(ctx, network, address)
}

// listenerOf returns the listener of a file, which it closes.
func listenerOf(f *os.File) (*net.TCPListener, error) {
	defer f.Close()
	l, err := net.FileListener(f)
	if err != nil {
		return nil, err
	}
	return l.(*net.TCPListener), nil
}

func (n *network) listenTCP(at netip.AddrPort) (*net.TCPListener, error) {
	f, err := n.runtime.Socket(n.ctx, podnet.Socket{Network: "tcp", Listen: at})
	if err != nil {
		return nil, err
	}
	return listenerOf(f)
}

func (n *network) listenUDP(at netip.AddrPort) (*net.UDPConn, error) {
	return n.packets(podnet.Socket{Network: "udp", Listen: at})
}

// packets returns a socket of UDP that listens.
func (n *network) packets(s podnet.Socket) (*net.UDPConn, error) {
	f, err := n.runtime.Socket(n.ctx, s)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	c, err := net.FilePacketConn(f)
	if err != nil {
		return nil, err
	}
	return c.(*net.UDPConn), nil
}

// has reports whether an address is one of pods in the network.
func (n *network) has(ip netip.Addr) bool { return n != nil && n.options.Pods.Contains(ip) }

// dial connects with a pod, or else with an address of the machine or beyond.
func (n *network) dial(ctx context.Context, network, address string) (net.Conn, error) {
	to, err := netip.ParseAddrPort(address)
	if err != nil || !n.has(to.Addr()) {
		var d net.Dialer
		return d.DialContext(ctx, network, address)
	}
	f, err := n.runtime.Socket(ctx, podnet.Socket{Network: network, Dial: to})
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return net.FileConn(f)
}

// resolve answers the queries of pods by the servers of this machine.
func (n *network) resolve() error {
	data, err := os.ReadFile(systemResolver)
	if err != nil {
		return err
	}
	servers, own := resolver(data, n.options.Gateway())
	if len(servers) == 0 {
		return fmt.Errorf("%s names no server", systemResolver)
	}
	at := netip.AddrPortFrom(n.options.Gateway(), domainPort)
	return errors.Join(beneath.Replace(n.runtime.Root(), resolverFile, own, false), n.proxy.Set(types.NamespacedName{Name: "dns"}, []proxy.Frontend{
		{Protocol: corev1.ProtocolUDP, Address: at, Backends: servers[:1]}, {Protocol: corev1.ProtocolTCP, Address: at, Backends: servers[:1]},
	}))
}

// resolverFile is what pods see as /etc/resolv.conf, below the directory of the node.
const resolverFile = "resolv.conf"

// resolver returns the servers that a resolv.conf names, and the file for pods, which names the
// gateway instead.
func resolver(data []byte, gateway netip.Addr) (servers []netip.AddrPort, own []byte) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "nameserver %s\n", gateway)
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "nameserver" {
			b.WriteString(line)
			continue
		}
		if ip, err := netip.ParseAddr(fields[1]); err == nil {
			servers = append(servers, netip.AddrPortFrom(ip, domainPort))
		}
	}
	return servers, b.Bytes()
}

// frontends returns where a Service listens for pods: at its cluster IP, and not at the node ports
// of this machine.
func (n *network) frontends(all []proxy.Frontend) (own []proxy.Frontend) {
	for _, f := range all {
		if f.Address.Addr() != netip.MustParseAddr(nodeIP) {
			own = append(own, f)
		}
	}
	return own
}

// apiServer returns where the Service of the API server listens for pods: it has no endpoints that
// they could reach.
func (n *network) apiServer(s *corev1.Service, server string) []proxy.Frontend {
	ip, err := netip.ParseAddr(s.Spec.ClusterIP)
	to, invalid := netip.ParseAddrPort(server)
	if err != nil || invalid != nil || len(s.Spec.Ports) == 0 {
		return nil
	}
	return []proxy.Frontend{{Protocol: corev1.ProtocolTCP, Address: netip.AddrPortFrom(ip, uint16(s.Spec.Ports[0].Port)), Backends: []netip.AddrPort{to}}}
}

// serverOf returns host and port of the API server for a pod.
func (p *pods) serverOf(ctx context.Context, pod *corev1.Pod) string {
	var s corev1.Service
	if !p.ownNetwork(pod) || p.client.Get(ctx, client.Key(kubernetesService.Namespace, kubernetesService.Name), &s, client.UnsafeDisableDeepCopy) != nil ||
		s.Spec.ClusterIP == "" || len(s.Spec.Ports) == 0 {
		return p.options.Server(ctx)
	}
	return net.JoinHostPort(s.Spec.ClusterIP, fmt.Sprint(s.Spec.Ports[0].Port))
}

// ownNetwork reports whether a pod has a network of its own.
func (p *pods) ownNetwork(pod *corev1.Pod) bool { return p.network != nil && !pod.Spec.HostNetwork }

// podRange returns the range of the addresses of pods.
func (p *pods) podRange() netip.Prefix {
	if p.network != nil {
		return p.network.options.Pods
	}
	return defaultPods
}

// release frees the address of a pod, and removes it from the network.
func (p *pods) release(pod types.UID) {
	_ = p.runtime.Leave(p.ctx, string(pod)) // else the next pod with this address takes its place
	p.addresses.Release(pod)
}

// evict kills the containers of a pod that are not in its network: those that run since this node
// had another one.
func (p *pods) evict(pod *corev1.Pod, runs []proc.Run, podIP string) {
	var want netip.Addr
	if p.ownNetwork(pod) {
		want, _ = netip.ParseAddr(podIP)
	}
	for i := range runs {
		if r := &runs[i]; r.Exit == nil && r.Root != nil && r.Address != want {
			_ = p.runtime.Kill(r.ID) // if it has ended, wake is called
		}
	}
}
