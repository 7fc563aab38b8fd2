package simulation

import (
	"context"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
)

// A network connects clients with the running server. It delays data, and cuts some of the
// connections after any byte.
type network struct {
	seed seed
	log  *events

	mu    sync.Mutex
	calm  time.Time // connections opened from then on are not cut; zero: all of them
	dial  dial      // of the server; nil while none runs
	conns map[*conn]struct{}
	made  int
}

type dial func(ctx context.Context, network, address string) (net.Conn, error)

func newNetwork(s seed, log *events) *network {
	return &network{seed: s, log: log, conns: map[*conn]struct{}{}}
}

// config returns the configuration of clients.
func (n *network) config() (*rest.Config, *http.Transport) {
	t := &http.Transport{DialContext: n.connect, DisableCompression: true, MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute}
	return &rest.Config{Host: "http://kapok", Transport: t, QPS: -1}, t
}

// serve sets the target of new connections.
func (n *network) serve(d dial) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dial = d
}

// rough cuts connections for some time.
func (n *network) rough(lasts time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calm = time.Now().Add(lasts)
}

// cut ends all connections, and rejects further ones.
func (n *network) cut() {
	n.mu.Lock()
	n.dial = nil
	conns := n.conns
	n.conns = map[*conn]struct{}{}
	n.mu.Unlock()
	for c := range conns {
		c.Conn.Close()
	}
}

func (n *network) connect(ctx context.Context, network, address string) (net.Conn, error) {
	n.mu.Lock()
	d := n.dial
	n.made++
	s := n.seed.of("connection", n.made)
	rough := time.Now().Before(n.calm)
	n.mu.Unlock()
	if d == nil {
		return nil, &net.OpError{Op: "dial", Net: "simulated", Err: syscall.ECONNREFUSED}
	}
	server, err := d(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: server, network: n, in: way{seed: s.of("in"), left: -1}, out: way{seed: s.of("out"), left: -1}}
	if rough && s.int("cut", 4) == 0 {
		// Small numbers are as likely as large ones: a power of two plus a remainder.
		after := 1 << s.int("size", 16)
		after += s.int("more", after)
		if s.int("way", 2) == 0 {
			c.in.left = after
		} else {
			c.out.left = after
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.dial == nil { // cut meanwhile
		server.Close()
		return nil, &net.OpError{Op: "dial", Net: "simulated", Err: syscall.ECONNREFUSED}
	}
	n.conns[c] = struct{}{}
	return c, nil
}

// A conn is the client's end of a connection.
type conn struct {
	net.Conn
	network *network
	in, out way
}

// A way is one direction of a conn. It is used by one goroutine at a time.
type way struct {
	seed seed
	sent int
	left int // bytes until the connection is cut; -1: never
}

func reset(op string) error {
	return &net.OpError{Op: op, Net: "simulated", Err: syscall.ECONNRESET}
}

// delay waits for the latency of the network, which is mostly short.
func (w *way) delay() {
	w.sent++
	s := w.seed.of("packet", w.sent)
	d := time.Duration(50_000 + s.int("latency", 950_000))
	if s.int("late", 100) == 0 {
		d *= time.Duration(1 + s.int("much", 2000))
	}
	time.Sleep(d)
}

// allow returns how many of n bytes pass.
func (w *way) allow(n int) (passes int, cut bool) {
	if w.left < 0 {
		return n, false
	}
	if n < w.left {
		w.left -= n
		return n, false
	}
	n, w.left = w.left, 0
	return n, true
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n == 0 || err != nil {
		if err != nil && c.gone() {
			err = reset("read")
		}
		return n, err
	}
	c.in.delay()
	n, cut := c.in.allow(n)
	if cut {
		c.network.log.add("network: connection cut, response")
		c.Close()
		return n, reset("read")
	}
	return n, nil
}

func (c *conn) Write(p []byte) (int, error) {
	c.out.delay()
	n, cut := c.out.allow(len(p))
	n, err := c.Conn.Write(p[:n])
	if cut {
		c.network.log.add("network: connection cut, request")
		c.Close()
	}
	if cut || err != nil && c.gone() {
		err = reset("write")
	}
	return n, err
}

// gone reports whether the connection was cut.
func (c *conn) gone() bool {
	c.network.mu.Lock()
	defer c.network.mu.Unlock()
	_, has := c.network.conns[c]
	return !has
}

func (c *conn) Close() error {
	c.network.mu.Lock()
	delete(c.network.conns, c)
	c.network.mu.Unlock()
	return c.Conn.Close()
}
