package kapok

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// pipeBuffer is how many bytes of a pipe may be under way in each direction.
const pipeBuffer = 64 << 10

// newPipe returns the two ends of a connection in memory. Unlike those of
// net.Pipe, they have a buffer, as sockets do: a server that is done with a slow
// reader can go, and the reader still gets what was written. A pipe starts no
// goroutine, and works in a synctest bubble.
func newPipe() (net.Conn, net.Conn) {
	a, b := newStream(), newStream()
	return &pipeEnd{in: a, out: b}, &pipeEnd{in: b, out: a}
}

// pipeEnd implements net.Conn.
type pipeEnd struct{ in, out *stream }

func (e *pipeEnd) Read(p []byte) (int, error)  { return e.in.read(p) }
func (e *pipeEnd) Write(p []byte) (int, error) { return e.out.write(p) }

func (e *pipeEnd) Close() error {
	e.out.end()
	e.in.abandon()
	return nil
}

func (e *pipeEnd) SetDeadline(t time.Time) error {
	e.in.limit(&e.in.reading, t)
	e.out.limit(&e.out.writing, t)
	return nil
}

func (e *pipeEnd) SetReadDeadline(t time.Time) error {
	e.in.limit(&e.in.reading, t)
	return nil
}

func (e *pipeEnd) SetWriteDeadline(t time.Time) error {
	e.out.limit(&e.out.writing, t)
	return nil
}

func (e *pipeEnd) LocalAddr() net.Addr  { return pipeAddr{} }
func (e *pipeEnd) RemoteAddr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return insideHost }

// stream is one direction of a pipe.
type stream struct {
	turn sync.Mutex // held by a writer, so that writes do not mix; taken before mu

	mu      sync.Mutex
	changed sync.Cond // of mu: any of the fields below
	data    []byte    // written and not yet read
	ended   bool      // by the writer: what is left can be read
	gone    bool      // the reader: nothing can be written
	reading deadline
	writing deadline
}

type deadline struct {
	passed bool
	timer  *time.Timer // of the current deadline, nil if there is none to come
}

func newStream() *stream {
	s := &stream{}
	s.changed.L = &s.mu
	return s
}

func (s *stream) read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.gone:
			return 0, io.ErrClosedPipe
		case s.reading.passed:
			return 0, os.ErrDeadlineExceeded
		case len(s.data) > 0:
			n := copy(p, s.data)
			s.data = s.data[n:]
			if len(s.data) == 0 {
				s.data = nil // an idle pipe holds no memory
			}
			s.changed.Broadcast()
			return n, nil
		case s.ended:
			return 0, io.EOF
		case len(p) == 0:
			return 0, nil
		}
		s.changed.Wait()
	}
}

func (s *stream) write(p []byte) (n int, err error) {
	s.turn.Lock()
	defer s.turn.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.ended, s.gone:
			return n, io.ErrClosedPipe
		case s.writing.passed:
			return n, os.ErrDeadlineExceeded
		case len(p) == 0:
			return n, nil
		}
		if room := pipeBuffer - len(s.data); room > 0 {
			k := min(room, len(p))
			s.data = append(s.data, p[:k]...)
			n, p = n+k, p[k:]
			s.changed.Broadcast()
			continue
		}
		s.changed.Wait()
	}
}

// end is the writer's close.
func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.writing.clear()
	s.changed.Broadcast()
}

// abandon is the reader's close.
func (s *stream) abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
	s.data = nil
	s.reading.clear()
	s.changed.Broadcast()
}

// limit sets one of the deadlines; the zero time means none.
func (s *stream) limit(d *deadline, t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d.clear()
	if t.IsZero() {
		return
	}
	if wait := time.Until(t); wait > 0 {
		var timer *time.Timer
		timer = time.AfterFunc(wait, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if d.timer == timer { // not set anew meanwhile
				d.passed = true
				s.changed.Broadcast()
			}
		})
		d.timer = timer
		return
	}
	d.passed = true
	s.changed.Broadcast()
}

// clear takes a deadline away; the lock of its stream is held.
func (d *deadline) clear() {
	if d.timer != nil {
		d.timer.Stop()
	}
	*d = deadline{}
}
