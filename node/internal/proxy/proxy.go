// Package proxy forwards connections to Services to their endpoints, as kube-proxy does, but in
// this process: it listens at the addresses of the Services, which have to be addresses of this
// machine.
//
// Frontends computes where a Service listens and what is behind it. A Proxy has the sockets:
//
//	p := proxy.New(proxy.Network{})
//	defer p.Close()
//	err := p.Set(key, proxy.Frontends(&service, slices, "node", netip.MustParseAddr("127.0.0.1")))
//
// A port without endpoints has no socket, so that the system refuses connections to it. A
// connection that is established outlives the endpoint's readiness, and the Service, as with
// kube-proxy; datagrams of a client go to another endpoint as soon as theirs is gone. Endpoints see
// the address of this machine as that of their client.
//
// # Goroutines and locks
//
// A Proxy owns a goroutine for each socket that listens, two for each TCP connection, and one for
// each client of UDP. Close waits for them. The lock of a Proxy is taken before those of its
// listeners, and that of a listener before the one of its balancer.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ErrAddress is the error of Set for an address that is not one of the loopback interface.
var ErrAddress = errors.New("not a loopback address")

// A Network is where a Proxy has its sockets. The zero value is this machine, where it listens at
// loopback addresses only.
type Network struct {
	ListenTCP func(at netip.AddrPort) (*net.TCPListener, error)
	ListenUDP func(at netip.AddrPort) (*net.UDPConn, error)
	// Dial connects with endpoints. The connections are *net.TCPConn and *net.UDPConn.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

func (n *Network) complete() {
	if n.ListenTCP == nil {
		n.ListenTCP = func(at netip.AddrPort) (*net.TCPListener, error) {
			if err := checkLoopback(at); err != nil {
				return nil, err
			}
			return net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
		}
	}
	if n.ListenUDP == nil {
		n.ListenUDP = func(at netip.AddrPort) (*net.UDPConn, error) {
			if err := checkLoopback(at); err != nil {
				return nil, err
			}
			return net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
		}
	}
	if n.Dial == nil {
		n.Dial = (&net.Dialer{}).DialContext
	}
}

func checkLoopback(at netip.AddrPort) error {
	if !at.Addr().IsLoopback() {
		return fmt.Errorf("listen at %s: %w", at, ErrAddress)
	}
	return nil
}

// A Proxy listens at the addresses of Services. Make one with New. It is safe for concurrent use.
type Proxy struct {
	network Network
	ctx     context.Context // of all connections
	cancel  context.CancelFunc
	group   sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	services map[types.NamespacedName]map[place]*port

	own sync.Map // the balancers of the places that have sockets
}

type place struct {
	protocol corev1.Protocol
	address  netip.AddrPort
}

// A port is a frontend with its socket, nil if it has none.
type port struct {
	frontend Frontend
	balancer balancer
	socket   socket
}

// A socket listens for connections until close, or until the context of the Proxy ends.
type socket interface {
	// close ends the socket, but not the connections that exist.
	close()
	// refresh is called when the endpoints have changed.
	refresh()
}

// New returns a Proxy of no Services.
func New(n Network) *Proxy {
	n.complete()
	p := &Proxy{network: n, services: map[types.NamespacedName]map[place]*port{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Set replaces the frontends of a Service. It returns an error for each of them at which it cannot
// listen; calling it again tries again.
func (p *Proxy) Set(service types.NamespacedName, frontends []Frontend) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return net.ErrClosed
	}
	before, after := p.services[service], map[place]*port{}
	for i := range frontends {
		at := place{frontends[i].Protocol, frontends[i].Address}
		if after[at] = before[at]; after[at] == nil {
			after[at] = &port{}
		}
	}
	for at, old := range before {
		if after[at] == nil {
			p.closeLocked(at, old)
		}
	}
	var failed []error
	for i := range frontends {
		f := &frontends[i]
		at := place{f.Protocol, f.Address}
		failed = append(failed, p.updateLocked(at, after[at], f))
	}
	p.services[service] = after
	if len(after) == 0 {
		delete(p.services, service)
	}
	return errors.Join(failed...)
}

// updateLocked opens or closes the socket of a frontend, as it has endpoints or not.
func (p *Proxy) updateLocked(at place, t *port, f *Frontend) (err error) {
	t.frontend = *f
	t.balancer.set(f.Backends, f.Affinity)
	switch {
	case len(f.Backends) == 0:
		p.closeLocked(at, t)
	case t.socket != nil:
		t.socket.refresh()
	default:
		if t.socket, err = p.listen(f, &t.balancer); err != nil {
			t.socket = nil
			return err
		}
		p.own.Store(at, &t.balancer)
	}
	return nil
}

// closeLocked closes the socket of a port.
func (p *Proxy) closeLocked(at place, t *port) {
	if t.socket != nil {
		t.socket.close()
		t.socket = nil
		p.own.Delete(at)
	}
}

// pick returns the endpoint for a connection of a client, besides those that it has tried. An
// endpoint that is a Service again would forward connections in a circle, and is left out.
func (p *Proxy) pick(b *balancer, protocol corev1.Protocol, client netip.Addr, tried []netip.AddrPort) (netip.AddrPort, bool) {
	for {
		backend, ok := b.pick(client, tried, time.Now())
		if !ok {
			return backend, false
		}
		if _, circle := p.own.Load(place{protocol, backend}); !circle {
			return backend, true
		}
		tried = append(tried, backend)
	}
}

// Reset makes all sockets again, because the Network has been replaced by another one.
func (p *Proxy) Reset() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return net.ErrClosed
	}
	var failed []error
	for _, ports := range p.services {
		for at, t := range ports {
			p.closeLocked(at, t)
			failed = append(failed, p.updateLocked(at, t, &t.frontend))
		}
	}
	return errors.Join(failed...)
}

func (p *Proxy) listen(f *Frontend, b *balancer) (socket, error) {
	if f.Protocol == corev1.ProtocolUDP {
		return p.listenUDP(f.Address, b)
	}
	return p.listenTCP(f.Address, b)
}

// Close closes all sockets and connections.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	for _, ports := range p.services {
		for at, t := range ports {
			p.closeLocked(at, t)
		}
	}
	p.mu.Unlock()
	p.cancel()
	p.group.Wait()
}
