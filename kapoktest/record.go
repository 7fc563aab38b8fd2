package kapoktest

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Request is a request of a client of the Env.
type Request struct {
	Time      time.Time
	Method    string
	Path      string
	Query     url.Values
	UserAgent string
	User      string // impersonated user, or user of the token; "" for the admin
	Code      int    // of the response; 0 without a response
	Refusal   string // message of the response, if Code is 401 or 403
}

// IsWatch reports whether the request is a watch.
func (r Request) IsWatch() bool { return r.Query.Has("watch") && r.Query.Get("watch") != "false" }

// IsWrite reports whether the request may have changed something.
func (r Request) IsWrite() bool { return r.Method != http.MethodGet && r.Method != http.MethodHead }

// String returns method, path, code, and the message of a rejected request.
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

// Requests returns the requests that clients have sent, in their order, without those of the Env
// itself. It keeps the last 100,000; if there are more, it drops requests for leases and watches
// first.
func (e *Env) Requests() []Request {
	e.record.mu.Lock()
	defer e.record.mu.Unlock()
	all := make([]Request, 0, len(e.record.requests))
	for _, r := range e.record.requests {
		all = append(all, r.request())
	}
	return all
}

// Writes returns those of [Env.Requests] that may have changed an object.
func (e *Env) Writes() []Request {
	return slices.DeleteFunc(e.Requests(), func(r Request) bool { return !r.IsWrite() })
}

// remembered is the maximum number of requests in a recorder, of about 250 bytes each.
const remembered = 100_000

// A recorder records the requests of all clients except the Env's own.
type recorder struct {
	next http.RoundTripper
	most int
	fail func(error) // of those who keep time from passing

	mu       sync.Mutex
	crowd    crowd
	requests []*recorded
	// Without periodic requests: the number of requests and responses, and the requests without a
	// response.
	activity  int
	unsettled map[*recorded]struct{}
}

// recorded is a compact Request.
type recorded struct {
	at                               time.Time
	method, path, query, agent, user string
	code                             int
	refusal                          string
	recurs                           bool // it is one of those that never cease: leases are renewed, and watches come back
}

func (r *recorded) request() Request {
	query, _ := url.ParseQuery(r.query) // as URL.Query has it: what can be read
	return Request{Time: r.at, Method: r.method, Path: r.path, Query: query, UserAgent: r.agent, User: r.user, Code: r.code, Refusal: r.refusal}
}

func newRecorder(next http.RoundTripper, fail func(error)) *recorder {
	return &recorder{next: next, most: remembered, fail: fail, crowd: crowd{most: tooOften}, unsettled: map[*recorded]struct{}{}}
}

const (
	// ownAgent is the User-Agent of the Env's own clients.
	ownAgent = "kapoktest"
	// testAgent is the User-Agent of Env.Client.
	testAgent = "test"
)

// RoundTrip implements http.RoundTripper.
func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.UserAgent() == ownAgent {
		return r.next.RoundTrip(req)
	}
	if err := r.admit(req); err != nil {
		closeBody(req)
		return nil, err
	}
	one := r.begin(req)
	answer, err := r.next.RoundTrip(req)
	r.end(one, answer, refusalOf(answer))
	return answer, err
}

func (r *recorder) begin(req *http.Request) *recorded {
	one := &recorded{
		at: time.Now(), method: req.Method, path: req.URL.Path, query: req.URL.RawQuery, agent: req.UserAgent(),
		user: userOf(req),
	}
	one.recurs = strings.Contains(one.path, "/leases/") || strings.HasSuffix(one.path, "/leases")
	if !one.recurs && strings.Contains(one.query, "watch") {
		asked := one.request()
		one.recurs = asked.IsWatch()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.requests = append(r.requests, one); len(r.requests) > r.most {
		r.forgetLocked()
	}
	if !one.recurs {
		r.activity++
		r.unsettled[one] = struct{}{}
	}
	return one
}

func (r *recorder) end(one *recorded, answer *http.Response, refusal string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if answer != nil {
		one.code, one.refusal = answer.StatusCode, refusal
	}
	if !one.recurs {
		r.activity++
		delete(r.unsettled, one)
	}
}

// forgetLocked frees a quarter of the space: it drops periodic requests except for the last tenth,
// then the oldest ones.
func (r *recorder) forgetLocked() {
	kept := make([]*recorded, 0, r.most+1)
	for n, one := range r.requests {
		if n >= len(r.requests)/10*9 || !one.recurs {
			kept = append(kept, one)
		}
	}
	if n := r.most - r.most/4; len(kept) > n {
		kept = slices.Delete(kept, 0, len(kept)-n)
	}
	r.requests = kept
}

// CloseIdleConnections implements the optional interface of http.Client. client-go logs an error
// for a transport without it.
func (r *recorder) CloseIdleConnections() {
	if c, ok := r.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// active returns the number of requests and responses so far, without periodic ones; busy reports
// whether a request is in progress.
func (r *recorder) active() (n int, busy bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.activity, len(r.unsettled) > 0
}

// unanswered returns the requests in progress.
func (r *recorder) unanswered() (all []Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for one := range r.unsettled {
		all = append(all, one.request())
	}
	return all
}
