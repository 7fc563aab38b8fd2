package endpoint

import (
	"context"
	"net/http"
	"sync"

	"github.com/kapok-dev/kapok/internal/aggregate"
)

// delegate has another server answer a request. What may go on for ever, and connections that leave HTTP, end with this
// server's watches; all that is not long-running ends after a time.
func (c *call) delegate(to *aggregate.Remote) {
	ctx, cancel := context.WithCancelCause(c.r.Context())
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel(nil)
	if c.info.longRunning() || c.r.Header.Get("Upgrade") != "" {
		watching.Go(func() {
			select {
			case <-c.h.ending:
				cancel(aggregate.ErrEnding)
			case <-ctx.Done():
			}
		})
	}
	c.r = c.r.WithContext(ctx)
	if !c.info.longRunning() {
		bounded, release := c.context(requestTimeout)
		defer release()
		c.r = c.r.WithContext(bounded)
	}
	if err := to.Serve(&c.w, c.r, c.user); err != nil {
		c.fail(err)
	} else if c.w.code == 0 {
		c.w.code = http.StatusSwitchingProtocols // said over the connection itself
	}
}
