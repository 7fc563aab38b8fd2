package aggregate_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// A listener accepts connections in memory. Unlike those of net.Pipe they have buffers: both ends
// can write before either reads.
type listener struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func newListener() *listener {
	return &listener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *listener) Addr() net.Addr { return &net.TCPAddr{} }

func (l *listener) dial() (net.Conn, error) {
	a, b := newHalf(), newHalf()
	select {
	case l.conns <- &end{a, b}:
		return &end{b, a}, nil
	case <-l.closed:
		return nil, errors.New("connection refused")
	}
}

// An end of a connection reads from one half and writes to the other.
type end struct{ in, out *half }

func (e *end) Read(p []byte) (int, error)         { return e.in.read(p) }
func (e *end) Write(p []byte) (int, error)        { return e.out.write(p) }
func (e *end) Close() error                       { e.in.close(); e.out.close(); return nil }
func (e *end) LocalAddr() net.Addr                { return &net.TCPAddr{} }
func (e *end) RemoteAddr() net.Addr               { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1} }
func (e *end) SetDeadline(t time.Time) error      { return e.SetReadDeadline(t) }
func (e *end) SetReadDeadline(t time.Time) error  { e.in.until(t); return nil }
func (e *end) SetWriteDeadline(t time.Time) error { return nil }

// A half is one direction, with an unbounded buffer.
type half struct {
	mu     sync.Mutex
	cond   *sync.Cond
	data   bytes.Buffer
	closed bool
	late   bool // the deadline has passed
	timer  *time.Timer
}

func newHalf() *half {
	h := &half{}
	h.cond = sync.NewCond(&h.mu)
	return h
}

func (h *half) read(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.data.Len() == 0 && !h.closed && !h.late {
		h.cond.Wait()
	}
	switch {
	case h.late:
		return 0, os.ErrDeadlineExceeded
	case h.data.Len() > 0:
		return h.data.Read(p)
	}
	return 0, io.EOF
}

func (h *half) write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return 0, net.ErrClosed
	}
	h.cond.Broadcast()
	return h.data.Write(p)
}

func (h *half) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	if h.timer != nil {
		h.timer.Stop()
	}
	h.cond.Broadcast()
}

func (h *half) until(t time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.timer != nil {
		h.timer.Stop()
	}
	wait := time.Until(t)
	h.late = !t.IsZero() && wait <= 0
	if !t.IsZero() && wait > 0 {
		h.timer = time.AfterFunc(wait, func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.late = true
			h.cond.Broadcast()
		})
	}
	h.cond.Broadcast()
}
