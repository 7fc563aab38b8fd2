// Package endpoint is the HTTP surface of the server: it turns requests into
// calls of a [resource.Store], and what comes back into bytes.
//
// # The way of a request
//
// A [Handler] takes every request through the same steps, in the order of the
// files of this package:
//
//	recover   a panic becomes a 500, the server lives on         recover.go
//	info      what the path and the method ask for               info.go
//	identify  who asks (package auth)                            endpoint.go
//	limit     too many at once wait, or are told to come back    limit.go
//	authorize may he (package auth)                              endpoint.go
//	dispatch  resource, discovery, health, metrics ...           dispatch.go
//	options   query parameters and bodies                        parameters.go, body.go
//	verb      the call of the Store                              verbs.go, list.go, watch.go
//	answer    negotiated media type and shape                    media.go, answer.go, table.go
//
// Status codes, reasons, messages and headers are those of kube-apiserver 1.37
// (k8s.io/apiserver/pkg/endpoints), plain texts included.
//
// # Bytes
//
// Objects are not decoded or encoded here. What a client gets is a form of the
// object ([object.Form]), made once, with its resourceVersion spliced in; a list
// is a concatenation of forms, an event is a form with a frame around it.
//
// # Concurrency
//
// A Handler is safe for concurrent use. It starts no goroutine: a watch runs in
// the goroutine that net/http has given its request, and holds a timer besides.
// Its only locks are inside the limiter (package fairness) and the metrics; neither is held while
// anything else is called.
package endpoint

import (
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kapok-dev/kapok/internal/aggregate"
	"github.com/kapok-dev/kapok/internal/audit"
	"github.com/kapok-dev/kapok/internal/auth"
	"github.com/kapok-dev/kapok/internal/fairness"
	"github.com/kapok-dev/kapok/internal/resource"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/version"
)

// Options are what a Handler is made of. Only Store is required.
type Options struct {
	// Store carries the requests out.
	Store *resource.Store
	// Authenticator tells who asks. Default: one that knows no credentials, for
	// which everybody from outside the process is anonymous.
	Authenticator *auth.Authenticator
	// Authorizer decides what users may do. Default: auth.Basic.
	Authorizer auth.Authorizer
	// Audit writes down who has asked for what. Default: nobody does.
	Audit *audit.Auditor
	// Aggregated knows what other servers serve. Default: nothing.
	Aggregated *aggregate.Aggregator
	// GroupByGroup leaves out the discovery document of all groups at once.
	GroupByGroup bool
	// OpenAPI serves the paths below /openapi/. Default: they are not found.
	OpenAPI http.Handler
	// Documents are served as they are, by path.
	Documents map[string]Document
	// Logger receives panics and what goes wrong inside. Default: slog.Default().
	Logger *slog.Logger
	// Version is what /version tells.
	Version version.Info
	// Address is the host:port that /api tells clients to use.
	Address string
	// Checks are the health checks behind /healthz, /livez and /readyz, besides ping.
	Checks []Check
	// Collectors are metrics of other parts of the server, for /metrics.
	Collectors []prometheus.Collector
	// MaxBody bounds the body of a request, in bytes. Default 3 MiB.
	MaxBody int64
	// Limiter bounds how many requests are served at a time. It is the caller's to close. Default: a plain one.
	Limiter *fairness.Limiter
}

const defaultMaxBody = 3 << 20

// A Handler serves the Kubernetes API over HTTP. Make one with [New].
type Handler struct {
	opts      Options
	store     *resource.Store
	log       *slog.Logger
	limiter   *fairness.Limiter
	metrics   *metrics
	discovery atomic.Pointer[catalogue]
	buffers   sync.Pool // of *[]byte
	gzips     sync.Pool // of *gzip.Writer

	ending  chan struct{} // closed by EndWatches
	endOnce sync.Once
}

// New returns a Handler.
func New(opts Options) *Handler {
	if opts.Authenticator == nil {
		opts.Authenticator = auth.NewAuthenticator(nil)
	}
	if opts.Authorizer == nil {
		opts.Authorizer = auth.Basic{}
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	if opts.MaxBody <= 0 {
		opts.MaxBody = defaultMaxBody
	}
	if opts.Limiter == nil {
		opts.Limiter = fairness.New(fairness.Options{Plain: true})
	}
	h := &Handler{opts: opts, store: opts.Store, log: opts.Logger, limiter: opts.Limiter, ending: make(chan struct{})}
	h.metrics = newMetrics(h.limiter, opts.Collectors)
	return h
}

// EndWatches ends all watch streams, those under way and those to come. It is
// called before the HTTP server is drained, which would wait for them.
func (h *Handler) EndWatches() {
	h.endOnce.Do(func() { close(h.ending) })
}

func (h *Handler) isEnding() bool {
	select {
	case <-h.ending:
		return true
	default:
		return false
	}
}

// Close releases what the Handler holds. Watches end; other requests under way
// are the HTTP server's to wait for.
func (h *Handler) Close() { h.EndWatches() }

// call is one request on its way.
type call struct {
	h     *Handler
	w     recorder
	r     *http.Request
	info  Info
	user  *auth.User
	pass  fairness.Pass
	begun time.Time

	record *audit.Record // nil if nothing is written down

	// Of requests for a resource that is served.
	definition *resource.Definition
	version    *resource.Version
	warnings   warnings
	dryRun     bool
	data       []byte // of the body, once read
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{h: h, w: recorder{ResponseWriter: w}, r: r, begun: time.Now()}
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
	if err := c.setDeadline(); err != nil {
		c.fail(err)
		return
	}
	if err := c.identify(); err != nil {
		c.refuseHTTP2()
		c.fail(err)
		return
	}
	if c.user.Name == auth.Anonymous {
		c.refuseHTTP2()
	}
	attributes := c.attributes()
	if !c.enter(attributes) {
		return
	}
	defer c.pass.Leave()
	if err := c.authorize(attributes); err != nil {
		header.Set("X-Content-Type-Options", "nosniff")
		c.fail(err)
		return
	}
	c.dispatch()
}

// identify finds out who sends the request, and on whose behalf.
func (c *call) identify() error {
	var err error
	if c.user, err = c.h.opts.Authenticator.Identify(c.r); err != nil {
		c.auditStranger()
		return err
	}
	sender := c.user
	c.audit()
	wanted, constraint, err := auth.Impersonate(c.r.Context(), c.h.opts.Authorizer, sender, c.r.Header, c.attributes)
	if err != nil {
		return err
	}
	if wanted != sender {
		c.user = wanted
		c.record.Impersonates(c.user, constraint)
	}
	return nil
}

// authorize returns nil if the user may, and has the decision written down.
func (c *call) authorize(a *auth.Attributes) error {
	d, reason, err := c.h.opts.Authorizer.Authorize(c.r.Context(), a)
	c.auditDecision(d, reason)
	switch {
	case d == auth.Allow:
		return nil
	case err != nil:
		return err
	}
	return auth.Forbidden(a, reason)
}

// refuseHTTP2 lets a client that has not said who he is keep no HTTP/2
// connection: the protocol is too easy to abuse (CVE-2023-44487).
func (c *call) refuseHTTP2() {
	if c.r.ProtoMajor == 2 {
		c.w.Header().Set("Connection", "close")
	}
}

func (c *call) attributes() *auth.Attributes {
	a := &auth.Attributes{
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

// selected are the requirements of the selectors in a query. What cannot be read is left out, which asks for more.
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
