package replicas

import (
	"io"
	"net"
	"sync"
	"testing"
)

// A line is a TCP proxy to a target that can be cut and frozen.
type line struct {
	listener net.Listener

	mu      sync.Mutex
	target  string
	state   state
	changed chan struct{} // closed when the state changes
	open    map[net.Conn]struct{}
}

type state int

const (
	whole  state = iota
	cut          // connections break, and new ones fail
	frozen       // bytes are delayed, without an error
)

func newLine(t testing.TB, target string) *line {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &line{listener: listener, target: target, changed: make(chan struct{}), open: map[net.Conn]struct{}{}}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { l.carry(conn) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		l.cut()
		running.Wait()
	})
	return l
}

func (l *line) address() string { return l.listener.Addr().String() }

func (l *line) cut()    { l.set(cut) }
func (l *line) freeze() { l.set(frozen) }
func (l *line) heal()   { l.set(whole) }

func (l *line) set(s state) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = s
	close(l.changed)
	l.changed = make(chan struct{})
	if s == cut {
		for conn := range l.open {
			conn.Close()
		}
	}
}

// lead changes the target of new connections, and breaks the old ones.
func (l *line) lead(target string) {
	l.cut()
	l.mu.Lock()
	l.target = target
	l.mu.Unlock()
	l.heal()
}

// pass waits while the line is frozen. It returns false if it is cut.
func (l *line) pass() bool {
	for {
		l.mu.Lock()
		s, changed := l.state, l.changed
		l.mu.Unlock()
		if s != frozen {
			return s == whole
		}
		<-changed
	}
}

// keep registers a connection, which is closed when the line is cut.
func (l *line) keep(conn net.Conn) (forget func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == cut {
		conn.Close()
	}
	l.open[conn] = struct{}{}
	return func() {
		conn.Close()
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.open, conn)
	}
}

func (l *line) carry(near net.Conn) {
	defer l.keep(near)()
	if !l.pass() {
		return
	}
	l.mu.Lock()
	target := l.target
	l.mu.Unlock()
	far, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer l.keep(far)()
	var both sync.WaitGroup
	both.Go(func() { l.copy(near, far) })
	both.Go(func() { l.copy(far, near) })
	both.Wait()
}

func (l *line) copy(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	io.Copy(gate{to, l}, from)
}

// A gate writes what the line lets pass.
type gate struct {
	to   io.Writer
	line *line
}

func (g gate) Write(p []byte) (int, error) {
	if !g.line.pass() {
		return 0, net.ErrClosed
	}
	return g.to.Write(p)
}
