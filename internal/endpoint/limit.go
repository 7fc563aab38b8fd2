package endpoint

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/authz"
	"github.com/kapok-dev/kapok/internal/fairness"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Headers with the classification of a request. They have UIDs because names of schemas and levels
// would disclose to unauthenticated clients how the administrator rates them.
const (
	headerFlowSchema    = "X-Kubernetes-Pf-Flowschema-Uid"
	headerPriorityLevel = "X-Kubernetes-Pf-Prioritylevel-Uid"
)

// enter waits for a seat. If there is none in time, it responds with 429 and returns false.
func (c *call) enter(a *authz.Attributes) bool {
	var pass fairness.Pass
	var retryAfter int64
	c.await(func(patience time.Duration) {
		pass, retryAfter = c.h.limiter.Enter(c.r.Context(), &fairness.Request{
			Attributes: a,
			Query:      c.r.URL.RawQuery,
			Reads:      c.info.reads(),
			Patience:   patience,
		})
	})
	c.queued = c.waited
	c.spanWait()
	header := c.w.Header()
	if uid := pass.FlowSchemaUID(); uid != nil { // shared values: read only
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

// await waits for something that requests share: a seat, memory, a place among heavy requests. All
// these waits of a request together last at most as long as its patience. The time that a body
// takes to arrive and that a list waits for its lane does not count: the deadline of the request
// limits these.
func (c *call) await(wait func(patience time.Duration)) {
	begun := time.Now()
	wait(max(0, c.patience()-c.waited))
	c.waited += time.Since(begun)
}

// patience returns the maximum time that a request waits in a queue: a quarter of its timeout.
func (c *call) patience() time.Duration {
	if c.info.longRunning() {
		return c.h.requests.Timeout / 4
	}
	return c.most(c.h.requests.Timeout) / 4
}

// setDeadline validates the timeout parameter. The deadline itself is set only where a request may
// wait, see [call.context].
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

// context returns the context for the call of the Store. Its timeout is most, or the timeout
// parameter if that is shorter.
func (c *call) context(most time.Duration) (context.Context, context.CancelFunc) {
	return context.WithDeadline(c.r.Context(), c.begun.Add(c.most(most)))
}

// most returns the timeout of the request: the argument, or the timeout parameter if that is
// shorter.
func (c *call) most(most time.Duration) time.Duration {
	if strings.Contains(c.r.URL.RawQuery, "timeout=") {
		if asked, err := time.ParseDuration(c.r.URL.Query().Get("timeout")); err == nil && asked > 0 && asked < most {
			most = asked
		}
	}
	return most
}
