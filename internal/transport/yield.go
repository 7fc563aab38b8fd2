package transport

import (
	"net"
	"runtime"
)

// yieldingListener accepts connections whose readers yield. Go runs a goroutine for up to 10 ms
// unless it blocks, and a reader does not block while its client sends faster than the server
// reads. With 200 such clients, a small request would wait for hundreds of milliseconds.
type yieldingListener struct {
	net.Listener
	// turns limits the number of readers that yield at a time. Further ones wait in order of
	// arrival, so that a small request has only a few readers before it, however many there are.
	turns chan struct{}
}

const (
	// yieldAfter is the number of bytes that a connection reads before it yields: some 0.1 ms of
	// work.
	yieldAfter = 32 << 10
	// readCost is added to the bytes of each read, because small records have a cost, too.
	readCost = 2 << 10
	// readersYielding is the number of readers that yield at a time, for each processor. A small
	// request waits for all of them, several times. Beside 200 clients that send 240 KB on each of
	// eight streams, on a busy machine, the 99th percentile of gets was 80 to 122 ms with 16, and 54
	// to 90 ms with 6; large bodies arrived no more slowly. With 1, readers got 0.6 MB/s together
	// beside eight goroutines that never block.
	readersYielding = 6
)

// Yielding returns a listener whose connections let other goroutines run while they are read.
func Yielding(l net.Listener) net.Listener { return newYieldingListener(l) }

func newYieldingListener(l net.Listener) *yieldingListener {
	return &yieldingListener{l, make(chan struct{}, readersYielding*runtime.GOMAXPROCS(0))}
}

// Accept implements net.Listener.
func (l *yieldingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &yieldingConn{Conn: c, turns: l.turns}, nil
}

// yieldingConn is a connection with one reader at a time, such as crypto/tls.
type yieldingConn struct {
	net.Conn
	turns chan struct{}
	read  int // bytes since the last yield
}

// Read implements net.Conn.
func (c *yieldingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.read += n + readCost; c.read >= yieldAfter {
		c.read = 0
		c.turns <- struct{}{}
		runtime.Gosched()
		<-c.turns
	}
	return n, err
}
