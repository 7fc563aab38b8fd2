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
// which they did. Of very many, as in a month of virtual time, the last 100,000 are remembered; leases and watches that never cease are
// forgotten first.
func (e *Env) Requests() []Request {
	e.record.mu.Lock()
	defer e.record.mu.Unlock()
	all := make([]Request, 0, len(e.record.requests))
	for _, r := range e.record.requests {
		all = append(all, r.request())
	}
	return all
}

// Writes returns the requests that may have changed something.
func (e *Env) Writes() []Request {
	return slices.DeleteFunc(e.Requests(), func(r Request) bool { return !r.IsWrite() })
}

// remembered is how many requests a recorder keeps at most, of about 250 bytes each.
const remembered = 100_000

// recorder writes down the requests of all clients but the Env's own.
type recorder struct {
	next http.RoundTripper
	most int
	fail func(error) // of those who keep time from passing

	mu       sync.Mutex
	crowd    crowd
	requests []*recorded
	// Of those that do not come by themselves all the time: how many came or were answered, and those that were not yet.
	activity  int
	unsettled map[*recorded]struct{}
}

// recorded is a Request in little room.
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

// ownAgent is the User-Agent of the Env's own clients.
const ownAgent = "kapoktest"

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

// forgetLocked makes room: it takes away what recurs, but for the last tenth, and then what is oldest, until a quarter is free.
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

// CloseIdleConnections is for the method of http.Client, and for client-go, which complains of a transport that has none.
func (r *recorder) CloseIdleConnections() {
	if c, ok := r.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// active counts what has happened so far, but for what recurs; busy says that something is under way.
func (r *recorder) active() (n int, busy bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.activity, len(r.unsettled) > 0
}

// unanswered returns the requests that are under way.
func (r *recorder) unanswered() (all []Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for one := range r.unsettled {
		all = append(all, one.request())
	}
	return all
}
