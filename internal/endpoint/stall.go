package endpoint

import (
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// stallTimeout is how long one write to a client may take that does not read.
	stallTimeout = 60 * time.Second
	// unbuffered is the size from which on a write may have to wait for the client: less than that net/http keeps.
	unbuffered = 4 << 10
)

// A watchdog cuts off a client that neither takes what it has asked for, nor goes. It is armed only while
// something waits for the client: a deadline that is set anew for each write would cost more than most writes.
type watchdog struct {
	w     http.ResponseWriter
	timer *time.Timer // nil until it is armed for the first time

	mu    sync.Mutex
	armed func(*http.ResponseController) // what to do about the client; nil if it is not armed
	until time.Time
}

// arm begins to wait; disarm has to follow.
func (d *watchdog) arm(limit time.Duration, cut func(*http.ResponseController)) {
	d.mu.Lock()
	d.armed, d.until = cut, time.Now().Add(limit)
	d.mu.Unlock()
	if d.timer == nil {
		d.timer = time.AfterFunc(limit, d.bark)
	} else {
		d.timer.Reset(limit)
	}
}

// disarm ends the wait. When it returns, nothing is done about the client any more.
func (d *watchdog) disarm() {
	d.timer.Stop()
	d.mu.Lock()
	d.armed = nil
	d.mu.Unlock()
}

func (d *watchdog) bark() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.armed != nil && !time.Now().Before(d.until) { // it may have been armed anew since the timer went off
		d.armed(http.NewResponseController(d.w))
	}
}

// past is a deadline that is over.
var past = time.Unix(1, 0)

// cutWriting makes writes fail, now and from now on.
func cutWriting(c *http.ResponseController) { _ = c.SetWriteDeadline(past) }

// cutReading makes reads of the body fail.
func cutReading(c *http.ResponseController) { _ = c.SetReadDeadline(past) }

// drainInTime reads the body, as long as the request may take.
func (c *call) drainInTime() ([]byte, error) {
	if c.r.ContentLength == 0 {
		return c.drainBody()
	}
	dog := &watchdog{w: c.w.ResponseWriter}
	left := time.Until(c.begun.Add(writeTimeout))
	dog.arm(left, cutReading)
	data, err := c.drainBody()
	dog.disarm()
	if err != nil && time.Since(c.begun) >= writeTimeout {
		c.w.Header().Set("Connection", "close")
		return nil, apierrors.NewTimeoutError("the body of the request did not arrive in time", 0)
	}
	return data, err
}
