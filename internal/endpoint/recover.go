package endpoint

import (
	"bufio"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"time"
)

// recorder keeps the status code of a response, and limits waits for the client.
type recorder struct {
	http.ResponseWriter
	code    int // 0 until the header has been written
	started func(code int)
	sent    int64 // bytes of the body
	written int   // bytes since the last Flush, some of which net/http may have buffered
	dog     *watchdog
	// slow is called once a write has waited for the client for slowClient. If it returns false,
	// the connection is closed.
	slow func() bool
	// unreadBody reports whether the client may still be sending the body. With HTTP/1, net/http
	// reads up to 256 KiB of it before it writes the header, or after the handler has returned.
	unreadBody bool
	// proxied reports whether another server may still be reading the body.
	proxied bool
	// patient says that a write may wait for the client forever, as long as its connection exists: a
	// user may pause the output of a program.
	patient bool
	// ends is the deadline for writing the response; zero if there is none.
	ends time.Time
}

// start runs before the header is written.
func (w *recorder) start(code int) {
	w.code = code
	if w.unreadBody && !w.proxied {
		_ = http.NewResponseController(w.ResponseWriter).SetReadDeadline(time.Now().Add(lateBody))
	}
	if w.started != nil {
		w.started(code)
	}
}

// WriteHeader implements http.ResponseWriter. Informational responses precede the response.
func (w *recorder) WriteHeader(code int) {
	if informational := code >= 100 && code <= 199; w.code == 0 && !informational {
		w.start(code)
	}
	w.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (w *recorder) Write(b []byte) (int, error) {
	if w.code == 0 {
		w.start(http.StatusOK)
	}
	w.sent += int64(len(b))
	if w.written += len(b); !w.patient && (w.written >= unbuffered || w.unreadBody) {
		defer w.armed().disarm()
	}
	return w.ResponseWriter.Write(b)
}

// armed returns a watchdog that is armed against a client that does not read.
func (w *recorder) armed() *watchdog {
	if w.dog == nil {
		w.dog = &watchdog{w: w.ResponseWriter}
	}
	limit := stallTimeout
	if !w.ends.IsZero() {
		limit = min(limit, time.Until(w.ends))
	}
	if w.slow == nil || limit <= slowClient {
		w.dog.arm(limit, cut)
		return w.dog
	}
	w.dog.arm(slowClient, func(c *http.ResponseController) {
		if !w.slow() {
			cut(c)
			return
		}
		w.dog.armLocked(limit-slowClient, cut)
	})
	return w.dog
}

// Unwrap implements the interface that http.ResponseController looks for.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Flush implements http.Flusher. It waits until the client has read what net/http buffers.
func (w *recorder) Flush() {
	if f, ok := w.ResponseWriter.(http.Flusher); ok {
		if !w.patient {
			defer w.armed().disarm()
		}
		f.Flush()
		w.written = 0
	}
}

// Hijack implements http.Hijacker. The caller sends the response, whose status is 101.
func (w *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil && w.code == 0 {
		w.start(http.StatusSwitchingProtocols)
	}
	return conn, buffered, err
}

// finish runs at the end of every request: it updates metrics and audit, and turns a panic into a
// response.
func (c *call) finish() {
	reason := recover()
	if reason == http.ErrAbortHandler {
		c.count(c.w.code)
		c.record.Complete(c.w.code)
		panic(reason) // net/http closes the connection
	}
	if reason != nil {
		c.record.Panicked(reason)
		c.record = nil
		c.h.log.Error("panic while serving a request",
			"method", c.r.Method, "uri", c.r.RequestURI, "panic", reason, "stack", string(debug.Stack()))
		if c.w.code != 0 {
			c.count(http.StatusInternalServerError)
			panic(http.ErrAbortHandler) // the client must not take a part for the whole
		}
		http.Error(&c.w, "This request caused apiserver to panic. Look in the logs for details.", http.StatusInternalServerError)
	}
	c.record.Complete(c.w.code)
	c.count(c.w.code)
	if log := c.h.log; log.Enabled(c.r.Context(), slog.LevelDebug) {
		user := "" // of a request that is not authenticated
		if c.user != nil {
			user = c.user.Name
		}
		log.Debug("request", "method", c.r.Method, "uri", c.r.RequestURI, "code", c.w.code,
			"duration", time.Since(c.begun).Round(time.Microsecond), "user", user, "agent", c.r.UserAgent())
	}
}
