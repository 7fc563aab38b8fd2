package endpoint

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// limiter counts the requests under way, and refuses what is too many.
type limiter struct {
	maxReading, maxWriting int64 // negative: no bound
	reading, writing       atomic.Int64
}

// enter lets a request in, or not; an administrator always gets in. leave must be
// called when it is done.
func (l *limiter) enter(reads, admin bool) (leave func(), ok bool) {
	count, most := &l.writing, l.maxWriting
	leave = l.leaveWriting
	if reads {
		count, most = &l.reading, l.maxReading
		leave = l.leaveReading
	}
	if n := count.Add(1); most >= 0 && n > most && !admin {
		count.Add(-1)
		return nil, false
	}
	return leave, true
}

func (l *limiter) leaveReading() { l.reading.Add(-1) }
func (l *limiter) leaveWriting() { l.writing.Add(-1) }

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
	if strings.Contains(c.r.URL.RawQuery, "timeout=") {
		if asked, err := time.ParseDuration(c.r.URL.Query().Get("timeout")); err == nil && asked > 0 && asked < most {
			most = asked
		}
	}
	return context.WithDeadline(c.r.Context(), c.begun.Add(most))
}
