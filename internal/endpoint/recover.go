package endpoint

import (
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"
)

// recorder remembers the status code of an answer.
type recorder struct {
	http.ResponseWriter
	code    int // 0 until the header has been written
	started func(code int)
	dog     *watchdog
}

// start is told of the header.
func (w *recorder) start(code int) {
	w.code = code
	if w.started != nil {
		w.started(code)
	}
}

// WriteHeader implements http.ResponseWriter.
func (w *recorder) WriteHeader(code int) {
	if w.code == 0 {
		w.start(code)
	}
	w.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (w *recorder) Write(b []byte) (int, error) {
	if w.code == 0 {
		w.start(http.StatusOK)
	}
	if len(b) >= unbuffered {
		defer w.guard().disarm()
	}
	return w.ResponseWriter.Write(b)
}

// guard returns a watchdog that is armed against a client that does not read.
func (w *recorder) guard() *watchdog {
	if w.dog == nil {
		w.dog = &watchdog{w: w.ResponseWriter}
	}
	w.dog.arm(stallTimeout, cutWriting)
	return w.dog
}

// Unwrap is for http.ResponseController.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Flush implements http.Flusher.
func (w *recorder) Flush() {
	if f, ok := w.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

// finish ends every request: it counts it, and turns a panic into an answer.
func (c *call) finish() {
	reason := recover()
	if reason == http.ErrAbortHandler {
		c.count(c.w.code)
		c.record.Complete(c.w.code)
		panic(reason) // net/http closes the connection without a word
	}
	if reason != nil {
		c.record.Panicked(reason)
		c.record = nil
		c.h.log.Error("panic while serving a request",
			"method", c.r.Method, "uri", c.r.RequestURI, "panic", reason, "stack", string(debug.Stack()))
		if c.w.code != 0 {
			c.count(http.StatusInternalServerError)
			panic(http.ErrAbortHandler) // half an answer is none
		}
		http.Error(&c.w, "This request caused apiserver to panic. Look in the logs for details.", http.StatusInternalServerError)
	}
	c.record.Complete(c.w.code)
	c.count(c.w.code)
	if log := c.h.log; log.Enabled(c.r.Context(), slog.LevelDebug) {
		log.Debug("request", "method", c.r.Method, "uri", c.r.RequestURI, "code", c.w.code,
			"duration", time.Since(c.begun).Round(time.Microsecond), "user", c.user.Name, "agent", c.r.UserAgent())
	}
}
