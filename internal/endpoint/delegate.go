package endpoint

import (
	"context"
	"net/http"
	"sync"

	"github.com/kapok-dev/kapok/internal/aggregate"
)

// delegate proxies a request to another server. Long-running requests and upgraded connections end
// with the watches of this server; all other requests have a timeout.
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
		c.w.code = http.StatusSwitchingProtocols // sent on the connection itself
	}
}
