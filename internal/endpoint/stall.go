package endpoint

import (
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// stallTimeout limits one write to a client that does not read.
	stallTimeout = 60 * time.Second
	// slowClient is the time after which a request whose write, or read of the body, waits for the
	// client releases its seats.
	slowClient = 20 * time.Millisecond
	// gzipState is the approximate memory, in bytes, for compressing a response.
	gzipState = 1 << 20
	// unbuffered is the size from which on a write may block: net/http buffers smaller ones and the
	// header.
	unbuffered = 2 << 10
	// lateBody limits how long net/http waits for the unread body of a request after the response.
	lateBody = 5 * time.Second
)

// A watchdog closes the connection of a client that neither reads its response nor disconnects. It
// is armed only while the server waits for the client: a deadline for each write would cost more
// than most writes.
type watchdog struct {
	w     http.ResponseWriter
	timer *time.Timer // nil until it is armed for the first time

	mu    sync.Mutex
	armed func(*http.ResponseController) // called at until; nil if not armed
	until time.Time
}

// arm starts the timer. The caller must call disarm afterwards.
func (d *watchdog) arm(limit time.Duration, cut func(*http.ResponseController)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.armLocked(limit, cut)
}

// armLocked is arm for functions that the watchdog calls.
func (d *watchdog) armLocked(limit time.Duration, cut func(*http.ResponseController)) {
	d.armed, d.until = cut, time.Now().Add(limit)
	if d.timer == nil {
		d.timer = time.AfterFunc(limit, d.bark)
	} else {
		d.timer.Reset(limit)
	}
}

// disarm stops the timer. After it has returned, the armed function does not run.
func (d *watchdog) disarm() {
	d.timer.Stop()
	d.mu.Lock()
	d.armed = nil
	d.mu.Unlock()
}

func (d *watchdog) bark() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.armed != nil && !time.Now().Before(d.until) { // it may have been armed again since the timer fired
		d.armed(http.NewResponseController(d.w))
	}
}

// readSlowly is called when a write has waited for the client. The request does no work meanwhile:
// it gives back its seats and the memory for its body, which is processed by then, and continues at
// the pace of the client. The memory that it retains is limited, for each user and for all; beyond
// that readSlowly returns false, and the connection is closed.
//
// The handler is blocked in a write while this runs, and so uses neither the pass nor the body.
func (c *call) readSlowly() bool {
	c.pass.Leave()
	c.leaveMemory()
	c.leaveReading()
	c.data = nil
	if c.slowBytes == 0 && c.h.unread.Try(c.user.Name, c.keeps) {
		c.slowBytes = c.keeps
	}
	return c.slowBytes > 0 || c.keeps == 0
}

// leaveUnread releases what readSlowly has reserved.
func (c *call) leaveUnread() {
	if c.slowBytes > 0 {
		c.h.unread.Release(c.user.Name, c.slowBytes)
		c.slowBytes = 0
	}
}

// past is a deadline that has passed.
var past = time.Unix(1, 0)

// cut makes all writes fail, and reads of the rest of the body, which net/http does before it
// writes.
func cut(c *http.ResponseController) {
	_ = c.SetWriteDeadline(past)
	cutReading(c)
}

// cutReading makes reads of the body fail.
func cutReading(c *http.ResponseController) { _ = c.SetReadDeadline(past) }

// drainInTime reads the body within the timeout of the request. If that takes longer than
// slowClient, it gives the seat back, sets c.late, and reserves memory for what the request
// retains; without room for that, it stops reading and returns errNoRoom.
func (c *call) drainInTime() ([]byte, error) {
	if c.r.ContentLength == 0 {
		return c.drainBody()
	}
	dog := &watchdog{w: c.w.ResponseWriter}
	left := time.Until(c.begun.Add(c.h.requests.writeTimeout()))
	crowded := false
	dog.arm(min(left, slowClient), func(r *http.ResponseController) { // the handler uses nothing of this before disarm
		c.late = true
		c.pass.Leave()
		if crowded = !c.roomForLate(); crowded {
			cutReading(r)
			return
		}
		dog.armLocked(left-slowClient, cutReading)
	})
	data, err := c.drainBody()
	dog.disarm()
	switch {
	case err == nil:
	case crowded:
		return nil, errNoRoom
	case time.Since(c.begun) >= c.h.requests.writeTimeout():
		c.w.Header().Set("Connection", "close")
		return nil, apierrors.NewTimeoutError("the body of the request did not arrive in time", 0)
	}
	return data, err
}
