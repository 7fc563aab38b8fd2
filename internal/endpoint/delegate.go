package endpoint

import (
	"context"
	"net/http"
	"sync"

	"github.com/kapok-dev/kapok/internal/aggregate"
)

// delegate has another server answer a request. What may go on for ever ends with this server's watches, all else after
// a time.
func (c *call) delegate(to *aggregate.Remote) {
	var ctx context.Context
	if c.info.longRunning() {
		var cancel context.CancelCauseFunc
		ctx, cancel = context.WithCancelCause(c.r.Context())
		var watching sync.WaitGroup
		defer watching.Wait()
		defer cancel(nil)
		watching.Go(func() {
			select {
			case <-c.h.ending:
				cancel(aggregate.ErrEnding)
			case <-ctx.Done():
			}
		})
	} else {
		var cancel context.CancelFunc
		ctx, cancel = c.context(requestTimeout)
		defer cancel()
	}
	if err := to.Serve(&c.w, c.r.WithContext(ctx), c.user); err != nil {
		c.fail(err)
	} else if c.w.code == 0 {
		c.w.code = http.StatusSwitchingProtocols // said over the connection itself
	}
}
