// Package endpoint is the HTTP surface of the server: it turns requests into calls of a
// [resource.Store], and results into responses.
//
// # The steps of a request
//
// A [Handler] takes every request through the same steps, in this order:
//
//	recover      turn a panic into a 500                               recover.go
//	info         parse method and path                                 info.go
//	headers      of all responses; respond to a preflight (CORS)       cors.go
//	authenticate determine the user (package authn)                    endpoint.go
//	trace        start a span, if there is a TracerProvider            trace.go
//	limit        wait for a seat, or reject with 429                   limit.go
//	authorize    check the user's permission (package authz)           endpoint.go
//	body         read the body, of authorized requests only            body.go
//	memory       reserve memory for large requests                     weight.go
//	dispatch     find the handler: resource, discovery, health ...     dispatch.go
//	options      parse query parameters                                parameters.go
//	verb         call the Store, or pass the request on                verbs.go, list.go, watch.go, connect.go
//	respond      render in the negotiated media type and shape         media.go, answer.go, table.go
//
// Status codes, reasons, messages and headers are those of kube-apiserver 1.37
// (k8s.io/apiserver/pkg/endpoints), plain texts included.
//
// # Bytes
//
// Objects in responses are not encoded here: a response contains a form of the object
// ([object.Form]), which is encoded once, with its resourceVersion spliced in. A list concatenates
// forms, and an event puts a frame around one.
//
// # Concurrency
//
// A Handler is safe for concurrent use. It starts no goroutine: a watch runs in the goroutine that
// net/http starts for its request, and owns a timer besides. The only locks are inside the limiter
// (package fairness) and the metrics; neither is held during calls to other packages.
package endpoint

import (
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kapok-dev/kapok/internal/aggregate"
	"github.com/kapok-dev/kapok/internal/audit"
	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authz"
	"github.com/kapok-dev/kapok/internal/connect"
	"github.com/kapok-dev/kapok/internal/fairness"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/turns"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/version"
)

// Options are the settings of a Handler. Only Store is required.
type Options struct {
	// Store executes the requests.
	Store *resource.Store
	// Authenticator determines the user of a request. Default: one without credentials, to which
	// all requests from outside the process are anonymous.
	Authenticator *authn.Authenticator
	// Authorizer decides whether a user is permitted to send a request. Default: authz.Basic.
	Authorizer authz.Authorizer
	// Audit records requests. Default: none are recorded.
	Audit *audit.Auditor
	// Aggregated finds the servers that serve API groups for this one. Default: there are none.
	Aggregated *aggregate.Aggregator
	// Connector passes requests for pods, services and nodes on to these. Default: such requests get
	// 503.
	Connector *connect.Connector
	// GroupByGroup disables the aggregated discovery document.
	GroupByGroup bool
	// OpenAPI serves the paths below /openapi/. Default: these return 404.
	OpenAPI http.Handler
	// Debug serves the paths below /debug/. Default: these return 404.
	Debug http.Handler
	// Flags are the settings that /flagz shows, by their names. Default: the path returns 404.
	Flags map[string]string
	// NoStatus lets /statusz return 404.
	NoStatus bool
	// TracerProvider receives the spans of requests. Default: there are none.
	TracerProvider trace.TracerProvider
	// Documents are served unchanged, by path.
	Documents map[string]Document
	// Logger receives panics and internal errors. Default: slog.Default().
	Logger *slog.Logger
	// Version is the response of /version.
	Version version.Info
	// Address is the host:port that /api returns to clients.
	Address string
	// Checks are the health checks behind /healthz, /livez and /readyz, besides ping.
	Checks []Check
	// Collectors are metrics of other parts of the server, for /metrics.
	Collectors []prometheus.Collector
	// Ailments returns problems with the server's files outside of the store, for the doctor.
	// Default: there are none.
	Ailments func() []string
	// Requests configure timeouts, and headers of all responses. They must be valid.
	Requests RequestOptions
	// PlainImpersonation permits impersonation by the verb impersonate only, as before KEP-5284.
	PlainImpersonation bool
	// UpgradesByGet lets a client open a WebSocket to a pod that may get the subresource, as before
	// Kubernetes 1.35. Default: it must be permitted to create it.
	UpgradesByGet bool
	// IgnoreUnsafeDelete ignores the option of deletions that is for objects which cannot be read, as
	// before Kubernetes 1.37.
	IgnoreUnsafeDelete bool
	// WatchGrace is the time over which EndWatches spreads the ends of watches. Default: they end at
	// once.
	WatchGrace time.Duration
	// MaxBody limits the body of a request, in bytes. Default 3 MiB.
	MaxBody int64
	// RequestMemory limits the estimated memory of all large requests together, in bytes. Default:
	// fairness.DefaultMemory.
	RequestMemory int64
	// Limiter limits the number of concurrent requests. The caller closes it. Default: a limiter
	// without priorities and fairness.
	Limiter *fairness.Limiter
}

const defaultMaxBody = 3 << 20

// A Handler serves the Kubernetes API over HTTP. Make one with [New].
type Handler struct {
	opts      Options
	requests  RequestOptions // with defaults
	store     *resource.Store
	log       *slog.Logger
	limiter   *fairness.Limiter
	metrics   *metrics
	pages     map[string]zpage // by their paths
	origins   origins
	security  string // the header Strict-Transport-Security; "" for none
	discovery atomic.Pointer[catalogue]
	began     time.Time
	buffers   sync.Pool        // of *[]byte
	gzips     sync.Pool        // of *compressor
	lane      *fairness.Memory // places of lists that are being rendered
	memory    *fairness.Memory // of requests under way
	heavy     *fairness.Memory // places of heavy requests
	bodies    *fairness.Memory // of bodies that are being read
	exempted  *fairness.Memory // of bodies of requests that are exempt from limits
	growers   growers          // bodies that are being read
	encoders  turns.Turns      // watches that begin
	unread    *fairness.Memory // of responses with slow clients
	protobuf  sync.Map         // *resource.Definition: *atomic.Int64, its watches in protobuf

	ending  chan struct{} // closed by EndWatches
	endOnce sync.Once
	retired atomic.Bool // by Retire
	partings
}

// New returns a Handler.
func New(opts Options) *Handler {
	if opts.Authenticator == nil {
		opts.Authenticator = authn.NewAuthenticator(nil)
	}
	if opts.Authorizer == nil {
		opts.Authorizer = authz.Basic{}
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	if opts.MaxBody <= 0 {
		opts.MaxBody = defaultMaxBody
	}
	if opts.Limiter == nil {
		opts.Limiter = fairness.New(fairness.Config{Options: fairness.Options{Unfair: true}})
	}
	if opts.RequestMemory <= 0 {
		opts.RequestMemory = fairness.DefaultMemory()
	}
	h := &Handler{
		opts: opts, requests: opts.Requests.withDefaults(), store: opts.Store, log: opts.Logger, limiter: opts.Limiter, began: time.Now(), ending: make(chan struct{}),
		memory: fairness.NewMemory(opts.RequestMemory),
		lane:   fairness.NewMemory(int64(max(2, runtime.GOMAXPROCS(0)))),
		heavy:  fairness.NewMemory(int64(max(1, runtime.GOMAXPROCS(0)/2))),
		unread: fairness.NewMemory(opts.RequestMemory / 2),
	}
	h.growers, h.encoders = growers{turns.New(1)}, turns.New(1)
	bodies := max(opts.RequestMemory/4, 2*opts.MaxBody)
	h.bodies, h.exempted = fairness.NewMemory(bodies), fairness.NewMemory(bodies)
	h.origins, h.security = newOrigins(opts.Requests.AllowedOrigins), strings.Join(opts.Requests.TransportSecurity, "; ")
	h.pages = h.zpages()
	h.metrics = newMetrics(opts.Version, h.limiter, opts.Collectors)
	return h
}

// Retire makes /readyz fail, so that load balancers send no more requests. All requests are served
// as before.
func (h *Handler) Retire() { h.retired.Store(true) }

// EndWatches ends all watches, within the WatchGrace of the options, and rejects later ones. Call
// it before draining the HTTP server, which waits for all requests.
func (h *Handler) EndWatches() {
	h.endOnce.Do(func() {
		h.spread(h.opts.WatchGrace)
		close(h.ending)
	})
}

func (h *Handler) isEnding() bool {
	select {
	case <-h.ending:
		return true
	default:
		return false
	}
}

// Close ends watches. The HTTP server waits for all other requests.
func (h *Handler) Close() { h.EndWatches() }

// call is one request under way.
type call struct {
	h     *Handler
	w     recorder
	r     *http.Request
	info  Info
	user  *authn.User
	pass  fairness.Pass
	begun time.Time

	remote *aggregate.Remote // the server that serves the path; nil for this one
	waited time.Duration     // for shared resources, see await
	queued time.Duration     // of that, for a seat
	hooked time.Duration     // for which admission webhooks have been called

	record *audit.Record // nil if the request is not recorded
	span   trace.Span    // nil if there is no TracerProvider, or none yet

	// Set for requests for a resource that is served.
	definition *resource.Definition
	version    *resource.Version
	warnings   warnings
	while      resource.Holding // from leaseHeader
	dryRun     bool
	data       []byte           // of the body, once read
	dataErr    error            // with which reading it failed
	late       bool             // the seat was released while the body was read
	lateBytes  int64            // bytes reserved for waiting for the body
	reading    int64            // bytes reserved for reading the body
	readingOf  *fairness.Memory // that they are reserved from
	weighed    int64            // estimated bytes of the request
	reserved   int64            // bytes reserved for the request
	heavy      bool             // the request has a place in Handler.heavy
	inLane     bool             // a list is being rendered
	keeps      int64            // bytes of the response that are retained while they are written
	slowBytes  int64            // bytes reserved for a slow client
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{h: h, w: recorder{ResponseWriter: w}, r: r, begun: time.Now()}
	c.w.unreadBody = r.ProtoMajor == 1 && r.ContentLength != 0
	defer c.finish()
	c.serve()
}

func (c *call) serve() {
	header := c.w.Header()
	auditID := c.r.Header.Get("Audit-ID")
	if auditID == "" {
		auditID = string(uuid.NewUUID())
	}
	header.Set("Audit-Id", auditID)

	var err error
	if c.info, err = ParseInfo(c.r.Method, c.r.URL); err != nil {
		c.internalError(err)
		return
	}
	header.Set("Cache-Control", "no-cache, private")
	if c.h.security != "" {
		header.Set("Strict-Transport-Security", c.h.security)
	}
	if chance := c.h.requests.GoawayChance; c.r.ProtoMajor == 2 && chance > 0 && rand.Float64() < chance {
		header.Set("Connection", "close") // net/http sends a GOAWAY
	}
	if c.share() {
		return
	}
	if err := c.setDeadline(); err != nil {
		c.fail(err)
		return
	}
	if err := c.identify(); err != nil {
		c.refuseHTTP2()
		c.fail(err)
		return
	}
	if c.user.Name == authn.Anonymous {
		c.refuseHTTP2()
	}
	c.startSpan()
	attributes := c.attributes()
	// Looked up once: an APIService that appears while the body is read is for later requests.
	c.remote = c.h.opts.Aggregated.Load().Find(c.r.URL.Path)
	c.w.proxied = c.remote != nil
	defer c.leaveMemory()
	defer c.leaveReading()
	if !c.enter(attributes) {
		return
	}
	defer c.pass.Leave()
	defer c.leaveUnread()
	c.w.slow = c.readSlowly
	if !c.info.longRunning() && !strings.HasPrefix(c.info.Path, "/kapok/") {
		c.w.ends = c.begun.Add(c.h.requests.Timeout)
	}
	if err := c.authorize(attributes); err != nil {
		header.Set("X-Content-Type-Options", "nosniff")
		c.pass.Leave() // writing the response may wait for the client
		c.fail(err)
		return
	}
	if c.takeBody(attributes) && c.takeMemory() && c.enterHeavy() {
		c.dispatch()
	}
}

// identify determines the user that sends the request, and the user that it impersonates.
func (c *call) identify() error {
	begun := time.Now()
	var err error
	if c.user, err = c.h.opts.Authenticator.Identify(c.r); err != nil {
		c.h.metrics.access.notAuthenticated.since(begun)
		c.auditStranger()
		return err
	}
	c.h.metrics.access.identified(c.user.Name, begun)
	sender := c.user
	c.audit()
	wanted, constraint, err := authz.Impersonate(c.r.Context(), c.h.opts.Authorizer, sender, c.r.Header, !c.h.opts.PlainImpersonation, c.attributes)
	if err != nil {
		return err
	}
	if wanted != sender {
		c.user = wanted
		c.record.Impersonates(c.user, constraint)
	}
	return nil
}

// authorize returns nil if the request is permitted. It records the decision.
func (c *call) authorize(a *authz.Attributes) error {
	begun := time.Now()
	decision, reason, err := c.h.opts.Authorizer.Authorize(c.r.Context(), a)
	c.h.metrics.access.decided(decision, err, begun)
	c.auditDecision(decision, reason)
	switch {
	case decision == authz.Allow:
		return nil
	case err != nil:
		return err
	}
	return authz.Forbidden(a, reason)
}

// refuseHTTP2 closes the HTTP/2 connection of an unauthenticated client after the response: the
// protocol is too easy to abuse (CVE-2023-44487).
func (c *call) refuseHTTP2() {
	if c.r.ProtoMajor == 2 {
		c.w.Header().Set("Connection", "close")
	}
}

func (c *call) attributes() *authz.Attributes {
	a := &authz.Attributes{
		User:            c.user,
		Verb:            c.info.Verb,
		Path:            c.info.Path,
		ResourceRequest: c.info.IsResource,
		APIGroup:        c.info.Group,
		APIVersion:      c.info.Version,
		Resource:        c.info.Resource,
		Subresource:     c.info.Subresource,
		Namespace:       c.info.Namespace,
		Name:            c.info.Name,
	}
	switch a.Verb {
	case "list", "watch", "deletecollection":
		if strings.Contains(c.r.URL.RawQuery, "Selector=") {
			a.Fields, a.Labels = selected(c.r.URL.Query())
		}
	}
	return a
}

// selected returns the requirements of the selectors in a query. Selectors that cannot be parsed
// are left out, so that the request needs permission for more.
func selected(query url.Values) (fields.Requirements, labels.Requirements) {
	var inFields fields.Requirements
	if s, err := fields.ParseSelector(query.Get("fieldSelector")); err == nil {
		inFields = s.Requirements()
	}
	var inLabels labels.Requirements
	if s, err := labels.Parse(query.Get("labelSelector")); err == nil {
		inLabels, _ = s.Requirements()
	}
	return inFields, inLabels
}
