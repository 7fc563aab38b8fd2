package transport

import (
	"crypto/tls"
	"net"
	"sync/atomic"
	"time"

	"github.com/kapok-dev/kapok/internal/turns"
)

// yieldingListener accepts connections that leave processors to others. Go runs a goroutine for up
// to 10 ms unless it blocks, and a small request waits at each of some seven steps for all that are
// ready before it. Beside 200 clients that connect and send 240 KB on each of eight streams, on two
// processors of which the server had one, the 99th percentile of gets was 41 to 111 ms in 20 runs;
// 62 to 188 ms if handshakes did not compute in turn, and 94 to 214 ms if readers yielded that had
// waited, in four runs each.
type yieldingListener struct {
	net.Listener
	// readers limits the number of readers that yield at a time. Further ones wait in order of
	// arrival, so that a small request has only a few readers before it, however many there are.
	readers turns.Turns
	// handshakes limits the number of TLS handshakes that compute at a time.
	handshakes turns.Turns
}

const (
	// yieldAfter is the number of bytes that a connection reads before it yields: some 0.1 ms of
	// work.
	yieldAfter = 32 << 10
	// readCost is added to the bytes of each read, because small records have a cost, too.
	readCost = 2 << 10
	// hasWaited is the time from which on a read has blocked, and so yielded. Without this, a client
	// with a small request now and then would wait among the readers, for up to 400 ms.
	hasWaited = 100 * time.Microsecond
	// readersYielding is the number of readers that yield at a time, for each processor. A small
	// request waits for all of them, several times. With 1, readers got 0.6 MB/s together beside eight
	// goroutines that never block.
	readersYielding = 2
	// handshakesComputing is the number of handshakes that compute at a time, for each processor. Each
	// takes almost 1 ms.
	handshakesComputing = 1
)

// Secure returns a listener for TLS connections, with one reader each, whose handshakes and reads
// let other goroutines run.
func Secure(l net.Listener, config *tls.Config) net.Listener {
	return newYieldingListener(l).secure(config)
}

func newYieldingListener(l net.Listener) *yieldingListener {
	return &yieldingListener{l, turns.New(readersYielding), turns.New(handshakesComputing)}
}

// Accept implements net.Listener.
func (l *yieldingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &yieldingConn{Conn: c, listener: l}, nil
}

// secure returns a listener whose connections compute their handshakes in turn.
func (l *yieldingListener) secure(config *tls.Config) net.Listener {
	config = config.Clone()
	choose := config.GetConfigForClient
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		hello.Conn.(*yieldingConn).compute()
		if choose == nil {
			return nil, nil
		}
		return choose(hello)
	}
	return tls.NewListener(l, config)
}

// yieldingConn is a connection with one reader at a time, such as crypto/tls.
type yieldingConn struct {
	net.Conn
	listener  *yieldingListener
	read      int         // bytes since the reader last let others run
	computing atomic.Bool // has a place in listener.handshakes
}

// Read implements net.Conn.
func (c *yieldingConn) Read(p []byte) (int, error) {
	c.computed()
	begun := time.Now()
	n, err := c.Conn.Read(p)
	if time.Since(begun) >= hasWaited {
		c.read = 0
	}
	if c.read += n + readCost; c.read >= yieldAfter {
		c.read = 0
		c.listener.readers.Take()
		c.listener.readers.Give()
	}
	return n, err
}

// Write implements net.Conn.
func (c *yieldingConn) Write(p []byte) (int, error) {
	c.computed()
	return c.Conn.Write(p)
}

// Close implements net.Conn.
func (c *yieldingConn) Close() error {
	c.computed()
	return c.Conn.Close()
}

// compute waits until few handshakes compute. The place is free again when the handshake reads,
// writes or ends, and so never taken by a client that holds back its part.
func (c *yieldingConn) compute() {
	c.listener.handshakes.Take()
	c.computing.Store(true)
}

func (c *yieldingConn) computed() {
	if c.computing.CompareAndSwap(true, false) {
		c.listener.handshakes.Give()
	}
}
