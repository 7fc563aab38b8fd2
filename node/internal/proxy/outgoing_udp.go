package proxy

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Datagrams are those of clients to addresses that are not those of the socket that receives them.
type Datagrams struct {
	Conn *net.UDPConn
	// To returns the address of a datagram by its control messages.
	To func(control []byte) (netip.AddrPort, bool)
	// Reply returns a socket with the address of a datagram, which is connected with its
	// client. It receives what the client sends next.
	Reply func(from, to netip.AddrPort) (*net.UDPConn, error)
}

// An exchange is a client with the address to which it sends.
type exchange struct{ client, to netip.AddrPort }

// controlSize is the size of the control messages of a datagram that are read, in bytes.
const controlSize = 128

// OutgoingUDP sends the datagrams of clients to their addresses: that of a Service of the Proxy, or
// another one, with which dial connects. It returns when the socket or the Proxy is closed.
func (p *Proxy) OutgoingUDP(d Datagrams, dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	stop := context.AfterFunc(p.ctx, func() { d.Conn.Close() })
	defer stop()
	buffer, control := make([]byte, maxDatagram), make([]byte, controlSize)
	running := map[exchange]net.Conn{}
	over := make(chan exchange, maxFlows)
	for {
		n, m, _, client, err := d.Conn.ReadMsgUDPAddrPort(buffer, control)
		for done := false; !done; {
			select {
			case e := <-over:
				delete(running, e)
			default:
				done = true
			}
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			select {
			case <-p.ctx.Done():
				return
			case <-time.After(acceptPause):
			}
			continue
		}
		to, ok := d.To(control[:m])
		if !ok {
			continue
		}
		e := exchange{netip.AddrPortFrom(client.Addr().Unmap(), client.Port()), to}
		remote := running[e] // it was sent before the socket for replies was connected
		if remote == nil && len(running) < maxFlows {
			if remote = p.exchange(d, e, dial, over); remote != nil {
				running[e] = remote
			}
		}
		if remote != nil {
			_, _ = remote.Write(buffer[:n]) // datagrams may be lost
		}
	}
}

// exchange connects a client with the address to which it sends, until both have been silent for a
// while. It returns the connection with that address, nil if there is none.
func (p *Proxy) exchange(d Datagrams, e exchange, dial func(ctx context.Context, network, address string) (net.Conn, error), over chan<- exchange) net.Conn {
	var remote net.Conn
	var err error
	if b, is := p.own.Load(place{corev1.ProtocolUDP, e.to}); is {
		backend, ok := p.pick(b.(*balancer), corev1.ProtocolUDP, e.client.Addr(), nil)
		if !ok {
			return nil
		}
		remote, err = p.network.Dial(p.ctx, "udp", backend.String())
	} else if Leaves(e.to.Addr()) {
		remote, err = dial(p.ctx, "udp", e.to.String())
	}
	if remote == nil || err != nil {
		return nil
	}
	reply, err := d.Reply(e.to, e.client)
	if err != nil {
		remote.Close()
		return nil
	}
	p.group.Go(func() {
		stop := context.AfterFunc(p.ctx, func() {
			remote.Close()
			reply.Close()
		})
		defer stop()
		done := make(chan struct{})
		go func() {
			defer close(done)
			relay(remote, reply)
		}()
		relay(reply, remote)
		<-done
		over <- e
	})
	return remote
}

// relay sends datagrams of one socket by another one, until one of them is closed or idle, and
// closes both.
func relay(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, maxDatagram)
	for {
		_ = from.SetReadDeadline(time.Now().Add(idleFlow))
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		_, _ = to.Write(buffer[:n]) // datagrams may be lost
	}
}
