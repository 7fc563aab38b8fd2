// Package eventlimit is Kubernetes' plugin EventRateLimit: it rejects events with 429 when too many
// arrive at the server, in a namespace, from a user, or from one source about one object.
//
// Each limit of the configuration has token buckets: qps is the rate at which tokens arrive, burst
// the size of a bucket. An event takes a token of each limit, also if another limit rejects it. A
// limit keeps the buckets that were used last; one that it has dropped is full when it is needed
// again.
//
// As in Kubernetes, only events of v1 are limited, not those of events.k8s.io, and dry runs take no
// tokens. A write that the server retries takes tokens for each attempt.
//
// The package starts no goroutine. Each limit has a lock around the choice of a bucket.
package eventlimit

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/internal/admission"
	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/causes"
	"github.com/kapok-dev/kapok/internal/resource"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/lru"
)

// Name is the name of the plugin.
const Name = "EventRateLimit"

// defaultBuckets is the number of buckets of a limit without a cacheSize.
const defaultBuckets = 4096

var _ admission.Validator = (*Plugin)(nil)

// A Plugin implements admission.Validator. It is safe for concurrent use.
type Plugin struct{ limits []*limiter }

// New returns a Plugin with a configuration in JSON or YAML, which must have limits.
func New(configuration []byte) (*Plugin, error) {
	config, err := load(configuration)
	if err != nil {
		return nil, err
	}
	p := &Plugin{}
	for _, l := range config.Limits {
		p.limits = append(p.limits, newLimiter(l))
	}
	return p, nil
}

// Handles implements admission.Plugin.
func (p *Plugin) Handles(r *resource.Request, op resource.Operation) bool {
	return (op == resource.OperationCreate || op == resource.OperationUpdate) && !r.DryRun &&
		r.Definition.Plural == "events" && r.Subresource == "" && r.GroupResource().Group == ""
}

// Validate implements admission.Validator.
func (p *Plugin) Validate(_ context.Context, a *resource.Admitted) error {
	now := time.Now()
	var errs []error
	for _, l := range p.limits {
		if key := l.of.key(a); !l.bucket(key).AllowN(now, 1) {
			errs = append(errs, fmt.Errorf("limit reached on type %v for key %v", l.of, key))
		}
	}
	if errs == nil {
		return nil
	}
	return apierrors.NewTooManyRequestsError(causes.Join(errs))
}

// A limiter has the buckets of one limit.
type limiter struct {
	of    scope
	rate  rate.Limit
	burst int

	mu      sync.Mutex
	buckets *lru.Cache // of *rate.Limiter by key
}

func newLimiter(l limit) *limiter {
	size := int(l.CacheSize)
	switch {
	case l.Type == ofServer:
		size = 1
	case size == 0:
		size = defaultBuckets
	}
	return &limiter{of: l.Type, rate: rate.Limit(l.QPS), burst: int(l.Burst), buckets: lru.New(size)}
}

// bucket returns the bucket of a key.
func (l *limiter) bucket(key string) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known, ok := l.buckets.Get(key); ok {
		return known.(*rate.Limiter)
	}
	full := rate.NewLimiter(l.rate, l.burst)
	l.buckets.Add(key, full)
	return full
}

// key returns the key of the bucket of an event.
func (s scope) key(a *resource.Admitted) string {
	switch s {
	case ofNamespace:
		return a.Request.Namespace
	case ofUser:
		return authn.Of(a.Request.User).Name
	case ofSource:
		return sourceAndObject(a.Object)
	}
	return ""
}

// sourceAndObject joins the fields of an event as Kubernetes does, so that the error has the same
// words.
func sourceAndObject(event resource.Tree) string {
	var key strings.Builder
	for _, path := range [][2]string{
		{"source", "component"}, {"source", "host"},
		{"involvedObject", "kind"}, {"involvedObject", "namespace"}, {"involvedObject", "name"}, {"involvedObject", "uid"}, {"involvedObject", "apiVersion"},
	} {
		value, _, _ := unstructured.NestedString(event, path[0], path[1])
		key.WriteString(value)
	}
	return key.String()
}
