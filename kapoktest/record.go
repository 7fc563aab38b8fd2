package kapoktest

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Request is one that a client of the Env has sent.
type Request struct {
	Time      time.Time
	Method    string
	Path      string
	Query     url.Values
	UserAgent string
	User      string // whom the request impersonates, or whose token it shows; "" for the admin
	Code      int    // of the answer; 0 if there is none yet, or never was
	Refusal   string // what the server has said of it, if Code is 401 or 403
}

// IsWatch says whether the request is for events.
func (r Request) IsWatch() bool { return r.Query.Has("watch") && r.Query.Get("watch") != "false" }

// IsWrite says whether the request may have changed something.
func (r Request) IsWrite() bool { return r.Method != http.MethodGet && r.Method != http.MethodHead }

// String is a line: method, path, code, and why it was refused.
func (r Request) String() string {
	text := r.Method + " " + r.Path
	if len(r.Query) > 0 {
		text += "?" + r.Query.Encode()
	}
	if r.Code != 0 {
		text += " " + http.StatusText(r.Code)
	}
	if r.Refusal != "" {
		text += ": " + r.Refusal
	}
	return text
}

// Requests returns what clients of the Env have asked the server for so far, the Env itself not included, in the order in
// which they did.
func (e *Env) Requests() []Request {
	e.record.mu.Lock()
	defer e.record.mu.Unlock()
	all := make([]Request, 0, len(e.record.requests))
	for _, r := range e.record.requests {
		if !r.own {
			all = append(all, r.Request)
		}
	}
	return all
}

// Writes returns the requests that may have changed something.
func (e *Env) Writes() []Request {
	return slices.DeleteFunc(e.Requests(), func(r Request) bool { return !r.IsWrite() })
}

// recorder writes down the requests of all clients.
type recorder struct {
	next http.RoundTripper

	mu       sync.Mutex
	requests []*recorded
	activity int // requests that came or were answered, but for those that come by themselves
}

type recorded struct {
	Request
	own bool // the Env's
}

func newRecorder(next http.RoundTripper) *recorder { return &recorder{next: next} }

// ownAgent is the User-Agent of the Env's own clients.
const ownAgent = "kapoktest"

// RoundTrip implements http.RoundTripper.
func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	one := &recorded{own: req.UserAgent() == ownAgent, Request: Request{
		Time: time.Now(), Method: req.Method, Path: req.URL.Path, Query: req.URL.Query(), UserAgent: req.UserAgent(),
		User: userOf(req),
	}}
	r.mu.Lock()
	r.requests = append(r.requests, one)
	if !one.recurs() {
		r.activity++
	}
	r.mu.Unlock()
	answer, err := r.next.RoundTrip(req)
	refusal := refusalOf(answer)
	r.mu.Lock()
	defer r.mu.Unlock()
	if answer != nil {
		one.Code, one.Refusal = answer.StatusCode, refusal
	}
	return answer, err
}

// CloseIdleConnections is for the method of http.Client, and for client-go, which complains of a transport that has none.
func (r *recorder) CloseIdleConnections() {
	if c, ok := r.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// recurs says whether a request is one of those that never cease: leases are renewed, and watches come back.
func (r *recorded) recurs() bool {
	return r.own || r.IsWatch() || strings.Contains(r.Path, "/leases/") || strings.HasSuffix(r.Path, "/leases")
}

func (r *recorder) active() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.activity
}
