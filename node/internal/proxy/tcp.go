package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// dialTimeout limits the time for a connection to one endpoint.
	dialTimeout = 10 * time.Second
	// acceptPause is the pause after an error, such as a lack of file descriptors.
	acceptPause = 50 * time.Millisecond
)

// tcp is a socket that accepts connections.
type tcp struct {
	proxy    *Proxy
	listener *net.TCPListener
	balancer *balancer
}

func (p *Proxy) listenTCP(at netip.AddrPort, b *balancer) (socket, error) {
	l, err := p.network.ListenTCP(at)
	if err != nil {
		return nil, err
	}
	t := &tcp{p, l, b}
	p.group.Go(t.accept)
	return t, nil
}

func (t *tcp) close() { t.listener.Close() }

func (t *tcp) refresh() {}

func (t *tcp) accept() {
	for {
		c, err := t.listener.AcceptTCP()
		switch {
		case err == nil:
			t.proxy.group.Go(func() { t.forward(c) })
		case errors.Is(err, net.ErrClosed):
			return
		default:
			select {
			case <-t.proxy.ctx.Done():
				return
			case <-time.After(acceptPause):
			}
		}
	}
}

// forward connects a client with an endpoint. If none accepts a connection, the client's is reset.
func (t *tcp) forward(c *net.TCPConn) {
	defer c.Close()
	backend := t.dial(c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap())
	if backend == nil {
		_ = c.SetLinger(0)
		return
	}
	t.proxy.join(c, backend)
}

// join copies between two connections until both have ended, and closes them.
func (p *Proxy) join(a, b *net.TCPConn) {
	defer a.Close()
	defer b.Close()
	stop := context.AfterFunc(p.ctx, func() {
		a.Close()
		b.Close()
	})
	defer stop()
	var group sync.WaitGroup
	group.Go(func() { pipe(b, a) })
	pipe(a, b)
	group.Wait()
}

// pipe copies until the end of from, and passes the end on. After an error, both connections are
// reset.
func pipe(to, from *net.TCPConn) {
	if _, err := io.Copy(to, from); err == nil && to.CloseWrite() == nil {
		return
	}
	for _, c := range []*net.TCPConn{to, from} {
		_ = c.SetLinger(0)
		c.Close()
	}
}

// dial connects to an endpoint, and to the next one if that fails; nil if all have failed.
func (t *tcp) dial(client netip.Addr) *net.TCPConn {
	var tried []netip.AddrPort
	for {
		backend, ok := t.proxy.pick(t.balancer, corev1.ProtocolTCP, client, tried)
		if !ok {
			return nil
		}
		ctx, cancel := context.WithTimeout(t.proxy.ctx, dialTimeout)
		c, err := t.proxy.network.Dial(ctx, "tcp", backend.String())
		cancel()
		if err == nil {
			return c.(*net.TCPConn)
		}
		tried = append(tried, backend)
	}
}
