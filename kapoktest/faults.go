package kapoktest

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Faults are what may go wrong between clients and their server: probabilities, from 0 to 1, of what a request meets. All of
// it happens in clusters, and none of it is a reason for a controller to do anything twice, or not at all. The Env's own
// methods meet none of it.
type Faults struct {
	// Conflict answers an update or a patch with 409: somebody else has written in between.
	Conflict float64
	// ServerError answers with 500, TooManyRequests with 429 and a Retry-After of a second. Nothing has happened.
	ServerError, TooManyRequests float64
	// Lost breaks off a write whose answer does not come: it has happened, and its client does not know.
	Lost float64
	// Unavailable refuses the connection.
	Unavailable float64
	// CutWatch breaks a watch off, once for each of its pieces that this falls on. Clients resume or list anew.
	CutWatch float64
	// DelayWatch holds what a watch says back for up to MaxDelay; what comes meanwhile comes in a bunch. So caches are stale.
	DelayWatch float64
	// MaxDelay is how long at most. Default a second.
	MaxDelay time.Duration
	// Forget makes the server forget its history before it answers: watches that resume are told 410, and clients list anew.
	Forget float64
}

// A Fault is one that has happened.
type Fault struct {
	What    string // the name of the field of Faults
	Request string // whose: who asks, method and path
	N       int    // which of those requests, from 1; of a watch, which of its pieces, too
	Piece   int
}

// String says what happened to which request.
func (f Fault) String() string {
	text := fmt.Sprintf("%s: request %d of %s", f.What, f.N, f.Request)
	if f.Piece > 0 {
		text += fmt.Sprintf(", piece %d", f.Piece)
	}
	return text
}

// WithFaults has requests meet faults, as a seed says: the same request of the same client, the first, second and so on, meets the same
// with the same seed, in whichever order the requests of others come.
func WithFaults(seed uint64, faults Faults) Option {
	return func(o *options) { o.faults = &injector{seed: seed, faults: faults} }
}

// Faults returns what has gone wrong so far.
func (e *Env) Faults() []Fault {
	if e.faults == nil {
		return nil
	}
	e.faults.mu.Lock()
	defer e.faults.mu.Unlock()
	return slices.Clone(e.faults.met)
}

// injector stands between clients and the server.
type injector struct {
	seed   uint64
	faults Faults
	only   map[Fault]bool // nil for whatever the seed says
	next   http.RoundTripper
	forget func()

	mu    sync.Mutex
	count map[string]int // of requests so far, by who asks for what
	met   []Fault
}

// meets says whether a request meets a fault, and writes it down.
func (i *injector) meets(f Fault, probability float64) bool {
	if i.only != nil {
		if !i.only[f] {
			return false
		}
	} else if probability <= 0 || i.chance(f) >= probability {
		return false
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.met = append(i.met, f)
	return true
}

// chance is a number from 0 to 1 that belongs to a fault and a seed.
func (i *injector) chance(f Fault) float64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %v", i.seed, f)
	x := h.Sum64()
	x ^= x >> 33 // so that all bits depend on all
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return float64(x>>11) / (1 << 53)
}

// RoundTrip implements http.RoundTripper.
func (i *injector) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.UserAgent() == ownAgent {
		return i.next.RoundTrip(r)
	}
	agent, _, _ := strings.Cut(r.UserAgent(), "/")
	f := Fault{Request: agent + " " + r.Method + " " + r.URL.Path}
	i.mu.Lock()
	if i.count == nil {
		i.count = map[string]int{}
	}
	i.count[f.Request]++
	f.N = i.count[f.Request]
	i.mu.Unlock()
	does := func(what string, probability float64) bool {
		f := f
		f.What = what
		return i.meets(f, probability)
	}
	reads := r.Method == http.MethodGet
	watches := reads && r.URL.Query().Has("watch")
	switch {
	case does("Unavailable", i.faults.Unavailable):
		closeBody(r)
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	case does("ServerError", i.faults.ServerError):
		return refuse(r, http.StatusInternalServerError, metav1.StatusReasonInternalError, "the server has met an error, on purpose"), nil
	case does("TooManyRequests", i.faults.TooManyRequests):
		return refuse(r, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "too many requests, it is said"), nil
	case (r.Method == http.MethodPut || r.Method == http.MethodPatch) && does("Conflict", i.faults.Conflict):
		return refuse(r, http.StatusConflict, metav1.StatusReasonConflict, "the object has been modified; please apply your changes to the latest version and try again"), nil
	}
	if reads && does("Forget", i.faults.Forget) {
		i.forget()
	}
	answer, err := i.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if !reads && does("Lost", i.faults.Lost) {
		answer.Body.Close()
		return nil, errLost
	}
	if watches && answer.StatusCode == http.StatusOK {
		answer.Body = &frayed{ReadCloser: answer.Body, injector: i, fault: f, closed: make(chan struct{})}
	}
	return answer, nil
}

var errLost = fmt.Errorf("the connection has broken, on purpose: %w", io.ErrUnexpectedEOF)

func closeBody(r *http.Request) {
	if r.Body != nil {
		r.Body.Close()
	}
}

// refuse answers in place of the server.
func refuse(r *http.Request, code int, reason metav1.StatusReason, message string) *http.Response {
	closeBody(r)
	body := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":%q,"reason":%q,"code":%d}`, message, reason, code)
	header := http.Header{"Content-Type": {"application/json"}}
	if code == http.StatusTooManyRequests {
		header.Set("Retry-After", "1")
	}
	return &http.Response{
		Status: http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(bytes.NewReader([]byte(body))), ContentLength: int64(len(body)), Request: r,
	}
}

// frayed is what a watch says, with faults.
type frayed struct {
	io.ReadCloser
	injector *injector
	fault    Fault
	once     sync.Once
	closed   chan struct{} // by whoever reads, or by a cut
}

// Read implements io.Reader.
func (w *frayed) Read(p []byte) (int, error) {
	select {
	case <-w.closed:
		return 0, io.ErrUnexpectedEOF
	default:
	}
	n, err := w.ReadCloser.Read(p)
	if n == 0 || err != nil {
		return n, err
	}
	w.fault.Piece++
	f := w.fault
	if f.What = "DelayWatch"; w.injector.meets(f, w.injector.faults.DelayWatch) {
		f.What = "how long"
		w.pause(time.Duration(w.injector.chance(f) * float64(w.injector.faults.maxDelay())))
	}
	if f.What = "CutWatch"; w.injector.meets(f, w.injector.faults.CutWatch) {
		w.Close()
		return 0, io.ErrUnexpectedEOF
	}
	return n, nil
}

func (w *frayed) pause(d time.Duration) {
	late := time.NewTimer(d)
	defer late.Stop()
	select {
	case <-late.C:
	case <-w.closed:
	}
}

// Close implements io.Closer.
func (w *frayed) Close() error {
	w.once.Do(func() { close(w.closed) })
	return w.ReadCloser.Close()
}

func (f *Faults) maxDelay() time.Duration {
	if f.MaxDelay <= 0 {
		return time.Second
	}
	return f.MaxDelay
}
