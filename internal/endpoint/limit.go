package endpoint

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/auth"
	"github.com/kapok-dev/kapok/internal/fairness"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Headers that tell how a request was classified. Names of schemas and levels would tell strangers what the admin thinks of them.
const (
	headerFlowSchema    = "X-Kubernetes-Pf-Flowschema-Uid"
	headerPriorityLevel = "X-Kubernetes-Pf-Prioritylevel-Uid"
)

// enter waits until there is room for the request, or answers that there is none.
func (c *call) enter(a *auth.Attributes) bool {
	pass, retryAfter := c.h.limiter.Enter(c.r.Context(), &fairness.Request{
		Attributes: a,
		Query:      c.r.URL.RawQuery,
		Reads:      c.info.reads(),
		Patience:   c.patience(),
	})
	header := c.w.Header()
	if uid := pass.FlowSchemaUID(); uid != nil { // values are shared: nobody changes them
		header[headerFlowSchema] = uid
		header[headerPriorityLevel] = pass.PriorityLevelUID()
	}
	if retryAfter > 0 {
		header.Set("Retry-After", strconv.FormatInt(retryAfter, 10))
		http.Error(&c.w, "Too many requests, please try again later.", http.StatusTooManyRequests)
		return false
	}
	c.pass = pass
	return true
}

// patience is how long a request may wait to be served: a quarter of the time that it has.
func (c *call) patience() time.Duration {
	if c.info.longRunning() {
		return requestTimeout / 4
	}
	return c.most(requestTimeout) / 4
}

// Requests that are not long-running end after requestTimeout, writes after
// writeTimeout, as in Kubernetes.
const (
	requestTimeout = 60 * time.Second
	writeTimeout   = 34 * time.Second
)

// setDeadline judges the timeout parameter. The deadline itself is only set
// where a request may wait, see [call.context].
func (c *call) setDeadline() error {
	if c.info.longRunning() || !strings.Contains(c.r.URL.RawQuery, "timeout=") {
		return nil
	}
	value := c.r.URL.Query().Get("timeout")
	if value == "" {
		return nil
	}
	if _, err := time.ParseDuration(value); err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("invalid timeout specified in the request URL - %v", err))
	}
	return nil
}

// context returns the context in which the Store serves the request, bounded in
// time by most, or by the timeout parameter if that is shorter.
func (c *call) context(most time.Duration) (context.Context, context.CancelFunc) {
	return context.WithDeadline(c.r.Context(), c.begun.Add(c.most(most)))
}

// most is how long the request may take.
func (c *call) most(most time.Duration) time.Duration {
	if strings.Contains(c.r.URL.RawQuery, "timeout=") {
		if asked, err := time.ParseDuration(c.r.URL.Query().Get("timeout")); err == nil && asked > 0 && asked < most {
			most = asked
		}
	}
	return most
}
