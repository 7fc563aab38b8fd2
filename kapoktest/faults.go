package kapoktest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/object"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Faults are what may go wrong between clients and their server: probabilities, from 0 to 1, of what a request meets. All of
// it happens in clusters, and none of it is a reason for a controller to do anything twice, or not at all. The Env's own
// methods meet none of it.
type Faults struct {
	// Conflict answers an update or a patch with 409: somebody else has written in between.
	Conflict float64
	// ServerError answers with 500, TooManyRequests with 429 and a Retry-After of a second, in a bubble of none: clients would sleep for it,
	// some of them with locks that others wait for, and no time passes while anybody waits for a lock. Nothing has happened.
	ServerError, TooManyRequests float64
	// Lost breaks off a write whose answer does not come: it has happened, and its client does not know.
	Lost float64
	// Unavailable refuses the connection.
	Unavailable float64

	// CutWatch breaks a watch off, once for each of its events that this falls on. Clients resume or list anew.
	CutWatch float64
	// DelayWatch holds an event of a watch back for up to MaxDelay; what comes meanwhile comes in a bunch. So caches are stale.
	DelayWatch float64
	// MaxDelay is how long at most. Default a second.
	MaxDelay time.Duration
	// Duplicate has a watch that resumes begin earlier than it asks for: its client is told again of the last changes that it was
	// told of, as by a server that lags behind the one of before. It is for servers in memory.
	Duplicate float64
	// Forget makes the server forget its history before it answers: watches that resume are told 410, and clients list anew.
	Forget float64

	// StaleList and StaleGet answer a list and a get that say that any state will do, by resourceVersion 0, or any not older than one
	// they name, from a state of up to MaxStale ago, as a server whose cache lags behind. Other reads are consistent, as in Kubernetes.
	// They are for servers in memory.
	StaleList, StaleGet float64
	// MaxStale is how old at most. Default a second.
	MaxStale time.Duration

	// Restart ends the server, as [Env.Restart] does, while it serves the request: if that is a write, it has happened or not, and
	// its client does not know. For up to MaxOutage connections are refused. The new server has the history of before, or has none.
	Restart float64
	// MaxOutage is how long at most. Default a second.
	MaxOutage time.Duration
}

// check says which probability is none.
func (f Faults) check() error {
	for field, value := range reflect.ValueOf(f).Fields() {
		if p, ok := value.Interface().(float64); ok && !(p >= 0 && p <= 1) { // NaN is not, either
			return fmt.Errorf("probability of %s: %v is not from 0 to 1", field.Name, p)
		}
	}
	return nil
}

// A Fault is one that has happened.
type Fault struct {
	What string // the name of the field of Faults
	// Request is whose: who asks, method and path, with WATCH for the method of a watch, and the selectors if there are any. Where a part of
	// the path ends as generated names do, that is a *, as it is another one in the next run.
	Request string
	N       int // which of those requests, from 1; 0 for what befalls an event
	Event   int // which event of all that those watches say, from 1; bookmarks are not counted, and go through
}

// String says what happened to which request.
func (f Fault) String() string {
	if f.Event > 0 {
		return fmt.Sprintf("%s: event %d of %s", f.What, f.Event, f.Request)
	}
	return fmt.Sprintf("%s: request %d of %s", f.What, f.N, f.Request)
}

// WithFaults has requests meet faults, as a seed says: the same request of the same client, the first, second and so on, meets the same
// with the same seed, in whichever order the requests of others come. A client is who has a User-Agent, up to the first slash.
func WithFaults(seed uint64, faults Faults) Option {
	return func(o *options) { o.faults = &injector{seed: seed, faults: faults, over: make(chan struct{})} }
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

// EndFaults has nothing go wrong from now on, so that a test can look whether all comes to what it should be. What is under way ends: events
// that are held back are told, and a server that is down is up again.
func (e *Env) EndFaults() {
	if e.faults == nil {
		return
	}
	e.faults.end()
	<-e.backend.restarted()
}

// injector stands between clients and the server.
type injector struct {
	seed    uint64
	faults  Faults
	only    map[Fault]bool // nil for whatever the seed says
	backend *backend
	bubble  bool          // time is virtual
	store   *memory.Store // of the server; nil if it is not in memory
	once    sync.Once
	over    chan struct{} // closed when nothing is to go wrong any more

	mu    sync.Mutex
	count map[string]int             // of requests, and events, so far, by who asks for what
	begun map[string]object.Revision // from where on clients have been told of changes, by who watches what
	met   []Fault
	held  map[Fault]struct{} // of events that are held back
}

func (i *injector) end() { i.once.Do(func() { close(i.over) }) }

func (i *injector) isOver() bool {
	select {
	case <-i.over:
		return true
	default:
		return false
	}
}

// meets says whether a request meets a fault, and writes it down.
func (i *injector) meets(f Fault, probability float64) bool {
	switch {
	case i.isOver():
		return false
	case i.only != nil:
		if !i.only[f] {
			return false
		}
	case probability <= 0 || i.chance(f, "") >= probability:
		return false
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.met = append(i.met, f)
	return true
}

// chance is a number in [0, 1) that belongs to a fault, a seed, and what is to be said of the fault.
func (i *injector) chance(f Fault, of string) float64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %v %s", i.seed, f, of)
	x := h.Sum64()
	x ^= x >> 33 // so that all bits depend on all
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return float64(x>>11) / (1 << 53)
}

// length is how long a fault lasts.
func (i *injector) length(f Fault, longest time.Duration) time.Duration {
	return time.Duration(i.chance(f, "how long") * float64(orSecond(longest)))
}

func orSecond(d time.Duration) time.Duration {
	if d <= 0 {
		return time.Second
	}
	return d
}

// generated is how names end that Kubernetes generates: with letters and digits that make no words.
var generated = regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{5,10}(/|$)`)

// fault is what names the faults of a request.
func (i *injector) fault(r *http.Request) Fault {
	agent, _, _ := strings.Cut(r.UserAgent(), "/")
	method, selectors := r.Method, ""
	if watches(r) {
		method = "WATCH"
		for _, name := range []string{"fieldSelector", "labelSelector"} {
			if selector := r.URL.Query().Get(name); selector != "" {
				selectors += " " + name + " " + selector
			}
		}
	}
	f := Fault{Request: agent + " " + method + " " + generated.ReplaceAllString(r.URL.Path, "-*$1") + selectors}
	f.N = i.next(f.Request)
	return f
}

func watches(r *http.Request) bool {
	return r.Method == http.MethodGet && r.URL.Query().Has("watch") && r.URL.Query().Get("watch") != "false"
}

// next counts.
func (i *injector) next(what string) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.count == nil {
		i.count = map[string]int{}
	}
	i.count[what]++
	return i.count[what]
}

// hold writes down that an event is held back, until release.
func (i *injector) hold(f Fault) (release func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.held == nil {
		i.held = map[Fault]struct{}{}
	}
	i.held[f] = struct{}{}
	return func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		delete(i.held, f)
	}
}

// underWay returns the faults that have begun, and have not come to their end.
func (e *Env) underWay() (all []string) {
	if e.faults == nil {
		return nil
	}
	e.faults.mu.Lock()
	for f := range e.faults.held {
		all = append(all, f.String())
	}
	e.faults.mu.Unlock()
	slices.Sort(all)
	if e.backend.isAway() {
		all = append(all, "Restart: clients have no server, or not yet again")
	}
	return all
}

// RoundTrip implements http.RoundTripper.
func (i *injector) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.UserAgent() == ownAgent {
		return i.backend.RoundTrip(r)
	}
	f := i.fault(r)
	does := func(what string, probability float64) bool {
		f.What = what
		return i.meets(f, probability)
	}
	reads := r.Method == http.MethodGet
	switch {
	case does("Unavailable", i.faults.Unavailable):
		closeBody(r)
		return nil, errRefused
	case does("ServerError", i.faults.ServerError):
		return refuse(r, apierrors.NewInternalError(errors.New("the server has met an error, on purpose"))), nil
	case does("TooManyRequests", i.faults.TooManyRequests):
		return i.turnAway(r), nil
	case (r.Method == http.MethodPut || r.Method == http.MethodPatch) && does("Conflict", i.faults.Conflict):
		key, _ := keyOf(r.URL.Path)
		return refuse(r, apierrors.NewConflict(key.Resource, key.Name, errors.New(modified))), nil
	case does("Restart", i.faults.Restart):
		return nil, i.restart(f, r, !reads)
	}
	if reads && does("Forget", i.faults.Forget) {
		_ = i.backend.current().Compact(r.Context()) // of memory, which does not fail
	}
	if reads {
		return i.read(r, f)
	}
	answer, err := i.backend.RoundTrip(r)
	if err == nil && does("Lost", i.faults.Lost) {
		answer.Body.Close()
		return nil, errLost
	}
	return answer, err
}

const modified = "the object has been modified; please apply your changes to the latest version and try again"

// restart restarts the server in the middle of a request, which has reached it or has not.
func (i *injector) restart(f Fault, r *http.Request, writes bool) error {
	if writes && i.chance(f, "committed") < 0.5 {
		answer, err := i.backend.RoundTrip(r)
		if err == nil {
			answer.Body.Close()
		}
	} else {
		closeBody(r)
	}
	i.backend.restart(i.length(f, i.faults.MaxOutage), i.chance(f, "forgets") < 0.5)
	return errLost
}

var errLost = fmt.Errorf("the connection has broken, on purpose: %w", io.ErrUnexpectedEOF)

func closeBody(r *http.Request) {
	if r.Body != nil {
		r.Body.Close()
	}
}

// refuse answers in place of the server.
func refuse(r *http.Request, because *apierrors.StatusError) *http.Response {
	closeBody(r)
	status := because.Status()
	status.Kind, status.APIVersion = "Status", "v1"
	return jsonAnswer(r, int(status.Code), &status)
}

// turnAway answers that there are too many requests. client-go sends the request up to ten times more.
func (i *injector) turnAway(r *http.Request) *http.Response {
	seconds := 1
	if i.bubble {
		seconds = 0
	}
	answer := refuse(r, apierrors.NewTooManyRequests("too many requests, it is said", seconds))
	answer.Header.Set("Retry-After", strconv.Itoa(seconds))
	return answer
}

// jsonAnswer is an answer that says what an object is.
func jsonAnswer(r *http.Request, code int, obj any) *http.Response {
	body, err := json.Marshal(obj)
	if err != nil {
		code, body = http.StatusInternalServerError, []byte(err.Error()) // of what has come as JSON, or is a Status, there is none
	}
	return &http.Response{
		Status: http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: r,
	}
}
