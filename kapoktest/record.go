package kapoktest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
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

// Refused returns the requests that the server has refused to who sent them: it did not know him (401), or he may not (403), also because
// a webhook or a policy says so.
func (e *Env) Refused() []Request {
	return slices.DeleteFunc(e.Requests(), func(r Request) bool { return r.Refusal == "" })
}

// refusals is a text about what the server has refused; "" for nothing.
func (e *Env) refusals() string {
	var said []string
	times := map[string]int{}
	for _, r := range e.Refused() {
		if times[r.Refusal]++; times[r.Refusal] == 1 {
			said = append(said, r.Refusal)
		}
	}
	if len(said) == 0 {
		return ""
	}
	text := "the server has refused:\n"
	for _, s := range said {
		text += fmt.Sprintf("  %d x %s\n", times[s], s)
	}
	return text
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

// refusalOf is why a request was refused; "" if it was not. The answer can be read again.
func refusalOf(answer *http.Response) string {
	if answer == nil || answer.StatusCode != http.StatusUnauthorized && answer.StatusCode != http.StatusForbidden {
		return ""
	}
	body, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	answer.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), failing{err}))
	if obj, _, err := clientscheme.Codecs.UniversalDeserializer().Decode(body, nil, nil); err == nil {
		if status, ok := obj.(*metav1.Status); ok && status.Message != "" {
			return status.Message
		}
	}
	return http.StatusText(answer.StatusCode)
}

// failing is the end of what was read, which was the end or an error.
type failing struct{ err error }

// Read implements io.Reader.
func (f failing) Read([]byte) (int, error) {
	if f.err == nil {
		return 0, io.EOF
	}
	return 0, f.err
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
