package etcd_test

import (
	"net"
	"sync"
	"testing"
)

// A wire is a TCP proxy that can be cut and frozen.
type wire struct {
	listener net.Listener

	mu struct {
		sync.Mutex
		target  string
		state   state
		changed chan struct{} // closed at each change of state
		conns   map[net.Conn]bool
	}
}

type state int

const (
	whole  state = iota
	cut          // connections break
	frozen       // bytes are delayed, without an error
)

func newWire(t *testing.T, target string) *wire {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{listener: l}
	w.mu.target = target
	w.mu.changed = make(chan struct{})
	w.mu.conns = map[net.Conn]bool{}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { w.serve(conn) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		w.cut()
		running.Wait()
	})
	return w
}

func (w *wire) address() string { return w.listener.Addr().String() }

func (w *wire) set(s state) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.state = s
	close(w.mu.changed)
	w.mu.changed = make(chan struct{})
	if s == cut {
		for conn := range w.mu.conns {
			conn.Close()
		}
	}
}

func (w *wire) cut()    { w.set(cut) }
func (w *wire) freeze() { w.set(frozen) }
func (w *wire) heal()   { w.set(whole) }

// moveTo changes the target of the wire.
func (w *wire) moveTo(target string) {
	w.cut()
	w.mu.Lock()
	w.mu.target = target
	w.mu.Unlock()
	w.heal()
}

func (w *wire) end() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.target
}

// pass returns true when the wire passes bytes, and false when it is cut.
func (w *wire) pass() bool {
	for {
		w.mu.Lock()
		s, changed := w.mu.state, w.mu.changed
		w.mu.Unlock()
		if s != frozen {
			return s == whole
		}
		<-changed
	}
}

func (w *wire) keep(conn net.Conn, keep bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if keep {
		w.mu.conns[conn] = true
	} else {
		delete(w.mu.conns, conn)
	}
}

func (w *wire) serve(conn net.Conn) {
	defer conn.Close()
	w.keep(conn, true)
	defer w.keep(conn, false)
	if !w.pass() {
		return
	}
	member, err := net.Dial("tcp", w.end())
	if err != nil {
		return
	}
	defer member.Close()
	w.keep(member, true)
	defer w.keep(member, false)
	var both sync.WaitGroup
	copy := func(to, from net.Conn) {
		defer to.Close()
		defer from.Close()
		buffer := make([]byte, 64<<10)
		for {
			n, err := from.Read(buffer)
			if err != nil || !w.pass() {
				return
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
	}
	both.Go(func() { copy(member, conn) })
	both.Go(func() { copy(conn, member) })
	both.Wait()
}
