package transport

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// pipeBuffer is the number of bytes that a pipe buffers in each direction.
const pipeBuffer = 64 << 10

// Pipe returns the two ends of an in-memory connection. Unlike those of net.Pipe, they have
// buffers, as sockets do: a server can close its end before a slow reader has read everything. A
// pipe starts no goroutine, and works in a synctest bubble.
func Pipe() (net.Conn, net.Conn) {
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
func (pipeAddr) String() string  { return host }

// stream is one direction of a pipe.
type stream struct {
	turn sync.Mutex // held during a write, so that writes do not interleave; acquired before mu

	mu      sync.Mutex
	changed sync.Cond // signals changes of the fields below
	data    []byte    // written, but not yet read
	ended   bool      // closed by the writer: buffered data can be read
	gone    bool      // closed by the reader: writes fail
	reading deadline
	writing deadline
}

type deadline struct {
	passed bool
	timer  *time.Timer // of the next deadline, nil if there is none
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
				s.data = nil // an idle pipe needs no buffer
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

// end closes the stream for the writer.
func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.writing.clear()
	s.changed.Broadcast()
}

// abandon closes the stream for the reader.
func (s *stream) abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
	s.data = nil
	s.reading.clear()
	s.changed.Broadcast()
}

// limit sets one of the deadlines; the zero time removes it.
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
			if d.timer == timer { // unless the deadline has been changed
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

// clear removes a deadline. The caller holds the lock of the stream.
func (d *deadline) clear() {
	if d.timer != nil {
		d.timer.Stop()
	}
	*d = deadline{}
}
