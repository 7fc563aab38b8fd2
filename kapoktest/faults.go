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
	"sync/atomic"
	"time"

	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/object"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Faults are the probabilities, from 0 to 1, of faults between clients and their server. All of
// them happen in clusters, and a controller must tolerate them: it must neither repeat nor omit any
// work. Requests of the Env's own methods are exempt.
type Faults struct {
	// Conflict rejects an update or a patch with 409, as if another client had written in between.
	Conflict float64
	// ServerError returns 500, and TooManyRequests 429 with a Retry-After of one second; the
	// request is not executed. In a bubble Retry-After is 0: some clients sleep for it while they
	// hold a lock, and virtual time does not advance while a goroutine waits for a lock.
	ServerError, TooManyRequests float64
	// Lost executes a write and closes the connection without a response, so the client does not
	// know the outcome.
	Lost float64
	// Unavailable refuses the connection.
	Unavailable float64

	// CutWatch ends a watch, with this probability for each event. The client resumes the watch, or
	// lists again.
	CutWatch float64
	// DelayWatch delays an event of a watch, and the events after it, for up to MaxDelay, so caches
	// are stale. The delayed events arrive together.
	DelayWatch float64
	// MaxDelay is the longest delay of DelayWatch. Default one second.
	MaxDelay time.Duration
	// With Duplicate, a resumed watch begins at an earlier revision than requested: its client
	// receives the last events again, as from a server that lags behind the previous one. It works
	// only with in-memory servers.
	Duplicate float64
	// Forget makes the server discard its history before it responds: watches that resume get 410,
	// and clients list again.
	Forget float64

	// StaleList and StaleGet return a state that is up to MaxStale old, as a server with a stale watch
	// cache does. They apply to lists and gets that allow it: those with resourceVersion 0, or with a
	// minimum resourceVersion that the state meets. Other reads are consistent, as in Kubernetes. They
	// work only with in-memory servers.
	StaleList, StaleGet float64
	// MaxStale is the greatest age of a stale state. Default one second.
	MaxStale time.Duration

	// Restart restarts the server while it serves the request, as [Env.Restart] does. A write may
	// or may not have been executed, and the client cannot know. Connections are refused for up to
	// MaxOutage. The new server has the history of the previous one, or none.
	Restart float64
	// MaxOutage is the longest outage of Restart. Default one second.
	MaxOutage time.Duration

	// Begin is when faults begin. Default: BeginSynced with [Explore], BeginAtOnce with
	// [WithFaults].
	Begin FaultsBegin
	// SpareDiscovery exempts discovery: requests for /api, /apis, /openapi and /version. Default
	// false.
	SpareDiscovery bool
}

// check returns an error for a field that is out of range.
func (f Faults) check() error {
	if f.Begin < 0 || f.Begin > BeginManually {
		return fmt.Errorf("field Faults.Begin is %d: want BeginSynced, BeginAtOnce or BeginManually", f.Begin)
	}
	for field, value := range reflect.ValueOf(f).Fields() {
		if p, ok := value.Interface().(float64); ok && !(p >= 0 && p <= 1) { // NaN is not, either
			return fmt.Errorf("field Faults.%s is %v: want a probability, from 0 to 1", field.Name, p)
		}
	}
	return nil
}

// any reports whether any probability is positive.
func (f Faults) any() bool {
	for _, value := range reflect.ValueOf(f).Fields() {
		if value.Kind() == reflect.Float64 && value.Float() > 0 {
			return true
		}
	}
	return false
}

// A Fault is an injected fault.
type Fault struct {
	What string // the name of the field of Faults
	// Request identifies the requests to which N refers: user agent, method and path of the
	// request, with WATCH as the method of a watch, and the selectors if there are any. A generated
	// suffix in the path is replaced by *, because it differs in the next run.
	Request string
	N       int // number of the request, from 1; 0 for the fault of an event
	Event   int // number of the event, from 1, over all watches that Request identifies, without bookmarks; 0 for the fault of a request
}

// String returns the form of a fault in a schedule, such as "Lost: request 1 of ...".
func (f Fault) String() string {
	if f.Event > 0 {
		return fmt.Sprintf("%s: event %d of %s", f.What, f.Event, f.Request)
	}
	return fmt.Sprintf("%s: request %d of %s", f.What, f.N, f.Request)
}

// FaultsBegin is when faults begin. A program whose discovery fails before its first reconcile
// usually exits, and a cluster restarts it. Most tests are about the behaviour after that, so
// faults can begin later.
type FaultsBegin int

const (
	// BeginSynced begins faults when the first cache of a client has synced: when its watch is
	// established, or has sent the existing objects. For a client without a cache, faults begin
	// with its first write, except for leases, events and reviews. Requests of [Env.Client] do not
	// count, because they are the test's.
	BeginSynced FaultsBegin = iota + 1
	// BeginAtOnce begins faults with the first request.
	BeginAtOnce
	// BeginManually begins faults when the test calls [Env.BeginFaults].
	BeginManually
)

// BeginFaults begins faults now. It has no effect after [Env.EndFaults].
func (e *Env) BeginFaults() {
	if e.faults != nil {
		e.faults.begins.Store(true)
	}
}

// WithFaults injects faults into requests. The seed decides which ones: with a given seed, the nth
// request of a client with a given method and path always gets the same faults, whatever the order
// of other requests. Clients are distinguished by their User-Agent, up to the first slash.
func WithFaults(seed uint64, faults Faults) Option {
	return func(o *options) { o.faults = newInjector(seed, faults) }
}

// Faults returns the faults injected so far.
func (e *Env) Faults() []Fault {
	if e.faults == nil {
		return nil
	}
	e.faults.mu.Lock()
	defer e.faults.mu.Unlock()
	return slices.Clone(e.faults.met)
}

// EndFaults ends all faults, so that a test can check that the system converges. It also ends
// faults in progress: delayed events are delivered, and a server that is down is started.
func (e *Env) EndFaults() {
	if e.faults == nil {
		return
	}
	e.faults.end()
	<-e.backend.restarted()
}

// An injector injects faults into requests between clients and the server.
type injector struct {
	seed    uint64
	faults  Faults
	only    map[Fault]bool // if not nil, the only faults to inject, whatever the seed
	backend *backend
	bubble  bool          // time is virtual
	store   *memory.Store // of the server; nil if it is not in memory
	once    sync.Once
	over    chan struct{} // closed by end
	begins  atomic.Bool   // faults have begun

	mu    sync.Mutex
	count map[string]int             // requests and events so far, by Fault.Request
	begun map[string]object.Revision // after which a client has received events, by Fault.Request
	met   []Fault
	held  map[Fault]struct{} // delayed events
}

func newInjector(seed uint64, faults Faults) *injector {
	i := &injector{seed: seed, faults: faults, over: make(chan struct{})}
	i.begins.Store(faults.Begin == 0 || faults.Begin == BeginAtOnce)
	return i
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

// meets reports whether a fault is injected into a request, and records it.
func (i *injector) meets(f Fault, probability float64) bool {
	switch {
	case i.isOver():
		return false
	case i.only != nil:
		if !i.only[f] {
			return false
		}
	case !i.begins.Load() || probability <= 0 || i.chance(f, "") >= probability:
		return false
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.met = append(i.met, f)
	return true
}

// chance returns a number in [0, 1), a hash of the seed, the fault and a purpose.
func (i *injector) chance(f Fault, of string) float64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %v %s", i.seed, f, of)
	x := h.Sum64()
	x ^= x >> 33 // so that all bits depend on all
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return float64(x>>11) / (1 << 53)
}

// length returns the duration of a fault.
func (i *injector) length(f Fault, longest time.Duration) time.Duration {
	return time.Duration(i.chance(f, "how long") * float64(orSecond(longest)))
}

func orSecond(d time.Duration) time.Duration {
	if d <= 0 {
		return time.Second
	}
	return d
}

// generated matches the random suffix of names that Kubernetes generates: consonants and digits.
var generated = regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{5,10}(/|$)`)

// fault returns the Fault of a request, without What.
func (i *injector) fault(r *http.Request) Fault {
	method, selectors := r.Method, ""
	if watches(r) {
		method = "WATCH"
		for _, name := range []string{"fieldSelector", "labelSelector"} {
			if selector := r.URL.Query().Get(name); selector != "" {
				selectors += " " + name + " " + selector
			}
		}
	}
	f := Fault{Request: agentOf(r) + " " + method + " " + generated.ReplaceAllString(r.URL.Path, "-*$1") + selectors}
	f.N = i.next(f.Request)
	return f
}

func watches(r *http.Request) bool {
	return r.Method == http.MethodGet && r.URL.Query().Has("watch") && r.URL.Query().Get("watch") != "false"
}

// next returns the number of the next request of a kind.
func (i *injector) next(what string) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.count == nil {
		i.count = map[string]int{}
	}
	i.count[what]++
	return i.count[what]
}

// hold records that an event is delayed, until release.
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

// underWay returns the faults in progress.
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
		all = append(all, "Restart: the server is down")
	}
	return all
}

// RoundTrip implements http.RoundTripper.
func (i *injector) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.UserAgent() == ownAgent || i.faults.SpareDiscovery && discovers(r.URL.Path) {
		return i.backend.RoundTrip(r)
	}
	answer, err := i.meet(r)
	if err == nil && i.faults.Begin == BeginSynced && changes(r) && answer.StatusCode < http.StatusMultipleChoices {
		i.begins.Store(true)
	}
	return answer, err
}

// discovers reports whether a path is about the kinds that the server serves.
func discovers(at string) bool {
	switch parts := strings.Split(strings.Trim(at, "/"), "/"); parts[0] {
	case "api":
		return len(parts) <= 2
	case "apis":
		return len(parts) <= 3
	case "openapi", "version":
		return true
	}
	return false
}

// changes reports whether a request shows that a client without a cache has begun its work.
func changes(r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead || agentOf(r) == testAgent {
		return false
	}
	key, _ := keyOf(r.URL.Path)
	switch key.Resource.Group {
	case "coordination.k8s.io", "events.k8s.io", "authentication.k8s.io", "authorization.k8s.io":
		return false
	}
	return key.Resource.Resource != "" && key.Resource.Resource != "events"
}

// agentOf returns the name of the client: its User-Agent up to the first slash.
func agentOf(r *http.Request) string {
	agent, _, _ := strings.Cut(r.UserAgent(), "/")
	return agent
}

// meet is RoundTrip with faults.
func (i *injector) meet(r *http.Request) (*http.Response, error) {
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
		return refuse(r, apierrors.NewInternalError(errors.New("injected fault ServerError"))), nil
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

// restart restarts the server during a request, which the server has executed or not.
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

var errLost = fmt.Errorf("injected fault: connection lost: %w", io.ErrUnexpectedEOF)

func closeBody(r *http.Request) {
	if r.Body != nil {
		r.Body.Close()
	}
}

// refuse returns an error response in place of the server.
func refuse(r *http.Request, because *apierrors.StatusError) *http.Response {
	closeBody(r)
	status := because.Status()
	status.Kind, status.APIVersion = "Status", "v1"
	return jsonAnswer(r, int(status.Code), &status)
}

// turnAway returns 429. client-go repeats the request up to ten times.
func (i *injector) turnAway(r *http.Request) *http.Response {
	seconds := 1
	if i.bubble {
		seconds = 0
	}
	answer := refuse(r, apierrors.NewTooManyRequests("injected fault TooManyRequests", seconds))
	answer.Header.Set("Retry-After", strconv.Itoa(seconds))
	return answer
}

// jsonAnswer returns a response with an object.
func jsonAnswer(r *http.Request, code int, obj any) *http.Response {
	body, err := json.Marshal(obj)
	if err != nil {
		code, body = http.StatusInternalServerError, []byte(err.Error()) // cannot happen for decoded JSON and a Status
	}
	return &http.Response{
		Status: http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: r,
	}
}
