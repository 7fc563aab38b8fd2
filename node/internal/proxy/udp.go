package proxy

import (
	"net"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// idleFlow is the time after which a client of UDP that is silent is forgotten.
	idleFlow = 2 * time.Minute
	// maxFlows bounds the clients of a port, each of which has a socket. Datagrams of others are
	// dropped.
	maxFlows = 1000
	// maxDatagram is the maximum size of a datagram.
	maxDatagram = 1 << 16
)

// udp is a socket that receives datagrams.
type udp struct {
	proxy    *Proxy
	conn     *net.UDPConn
	balancer *balancer

	mu    sync.Mutex
	ended bool
	flows map[netip.AddrPort]*flow // by client
}

// A flow is a client with its endpoint.
type flow struct {
	backend netip.AddrPort
	conn    *net.UDPConn // is connected to the endpoint
}

func (p *Proxy) listenUDP(at netip.AddrPort, b *balancer) (socket, error) {
	conn, err := p.network.ListenUDP(at)
	if err != nil {
		return nil, err
	}
	u := &udp{proxy: p, conn: conn, balancer: b, flows: map[netip.AddrPort]*flow{}}
	p.group.Go(u.receive)
	return u, nil
}

// close also ends the flows: replies come from the address of the socket.
func (u *udp) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ended = true
	u.conn.Close()
	for _, f := range u.flows {
		f.conn.Close()
	}
}

// refresh ends the flows whose endpoints are gone.
func (u *udp) refresh() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for client, f := range u.flows {
		if !u.balancer.has(f.backend) {
			f.conn.Close()
			delete(u.flows, client)
		}
	}
}

func (u *udp) receive() {
	buffer := make([]byte, maxDatagram)
	for {
		n, client, err := u.conn.ReadFromUDPAddrPort(buffer)
		if err != nil {
			u.mu.Lock()
			ended := u.ended
			u.mu.Unlock()
			if ended {
				return
			}
			select {
			case <-u.proxy.ctx.Done():
			case <-time.After(acceptPause):
			}
			continue
		}
		if f := u.flow(client); f != nil {
			_ = f.conn.SetReadDeadline(time.Now().Add(idleFlow))
			_, _ = f.conn.Write(buffer[:n]) // datagrams may be lost
		}
	}
}

// flow returns the flow of a client, nil if there can be none.
func (u *udp) flow(client netip.AddrPort) *flow {
	u.mu.Lock()
	defer u.mu.Unlock()
	if f := u.flows[client]; f != nil || u.ended || len(u.flows) >= maxFlows {
		return f
	}
	backend, ok := u.proxy.pick(u.balancer, corev1.ProtocolUDP, client.Addr().Unmap(), nil)
	if !ok {
		return nil
	}
	conn, err := u.proxy.network.Dial(u.proxy.ctx, "udp", backend.String())
	if err != nil {
		return nil
	}
	f := &flow{backend, conn.(*net.UDPConn)}
	u.flows[client] = f
	u.proxy.group.Go(func() { u.reply(client, f) })
	return f
}

// reply sends the datagrams of an endpoint to a client, until the flow is closed or idle, or the
// endpoint refuses.
func (u *udp) reply(client netip.AddrPort, f *flow) {
	defer func() {
		f.conn.Close()
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.flows[client] == f {
			delete(u.flows, client)
		}
	}()
	buffer := make([]byte, maxDatagram)
	for {
		n, err := f.conn.Read(buffer)
		if err != nil {
			return
		}
		_ = f.conn.SetReadDeadline(time.Now().Add(idleFlow))
		_, _ = u.conn.WriteToUDPAddrPort(buffer[:n], client)
	}
}
