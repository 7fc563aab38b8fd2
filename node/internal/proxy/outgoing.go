package proxy

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Outgoing connects the clients of a listener with the address that they have asked for, which is
// the local address of their connections: that of a Service of the Proxy, or another one, with
// which dial connects. It returns when the listener or the Proxy is closed.
func (p *Proxy) Outgoing(l *net.TCPListener, dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	stop := context.AfterFunc(p.ctx, func() { l.Close() })
	defer stop()
	for {
		c, err := l.AcceptTCP()
		switch {
		case err == nil:
			p.group.Go(func() { p.leave(c, dial) })
		case errors.Is(err, net.ErrClosed):
			return
		default:
			select {
			case <-p.ctx.Done():
				return
			case <-time.After(acceptPause):
			}
		}
	}
}

// leave connects a client with the address that it has asked for. If that accepts no connection,
// the client's is reset.
func (p *Proxy) leave(c *net.TCPConn, dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	defer c.Close()
	to := c.LocalAddr().(*net.TCPAddr).AddrPort()
	to = netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
	if b, is := p.own.Load(place{corev1.ProtocolTCP, to}); is {
		(&tcp{proxy: p, balancer: b.(*balancer)}).forward(c)
		return
	}
	if !Leaves(to.Addr()) {
		_ = c.SetLinger(0)
		return
	}
	ctx, cancel := context.WithTimeout(p.ctx, dialTimeout)
	defer cancel()
	remote, err := dial(ctx, "tcp", to.String())
	if err != nil {
		_ = c.SetLinger(0)
		return
	}
	p.join(c, remote.(*net.TCPConn))
}

// Leaves reports whether an address may be one of another network. On this machine, the others are
// those of its own programs, which trust connections from it.
func Leaves(ip netip.Addr) bool {
	return ip.IsGlobalUnicast() || ip.IsLinkLocalUnicast()
}
