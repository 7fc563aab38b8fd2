package transport

import (
	"context"
	"net"
	"sync"
	"syscall"
)

// host is the address of in-memory connections, and the host of URLs in the process.
const host = "kapok"

// Listener accepts in-memory connections, which Dial opens. It shares no state with other
// listeners, and so works in a synctest bubble.
type Listener struct {
	accepted chan net.Conn
	once     sync.Once
	closed   chan struct{}
}

// NewListener returns a Listener. The caller must close it.
func NewListener() *Listener {
	return &Listener{accepted: make(chan net.Conn), closed: make(chan struct{})}
}

// Dial opens a connection, and waits until it is accepted. It returns ECONNREFUSED if the Listener
// is closed.
func (l *Listener) Dial(ctx context.Context) (net.Conn, error) {
	return l.Connect(ctx, func(server net.Conn) net.Conn { return server })
}

// Connect is Dial with a wrapper around the connection that Accept returns.
func (l *Listener) Connect(ctx context.Context, wrap func(net.Conn) net.Conn) (net.Conn, error) {
	client, server := Pipe()
	select {
	case l.accepted <- wrap(server):
		return client, nil
	case <-l.closed:
		return nil, Refused()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accepted:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *Listener) isClosed() bool {
	select {
	case <-l.closed:
		return true
	default:
		return false
	}
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return pipeAddr{} }

// Refused returns the error of an operating system for a port without a listener. Informers
// recognize it: they wait and resume their watch, whereas other errors make them log and list
// again.
func Refused() error {
	return &net.OpError{Op: "dial", Net: pipeAddr{}.Network(), Addr: pipeAddr{}, Err: syscall.ECONNREFUSED}
}
