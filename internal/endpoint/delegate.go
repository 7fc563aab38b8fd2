package endpoint

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/internal/aggregate"
	"github.com/kapok-dev/kapok/internal/forward"
)

// delegate proxies a request to another server. Long-running requests and upgraded connections end
// with the watches of this server; all other requests have a timeout.
func (c *call) delegate(to *aggregate.Remote) {
	if c.info.longRunning() || forward.IsUpgrade(c.r) {
		defer c.endWithWatches()()
		c.pass.Leave() // the work is that of the other server
	}
	if !c.info.longRunning() {
		bounded, release := c.context(c.h.requests.Timeout)
		defer release()
		c.r = c.r.WithContext(bounded)
	}
	if err := to.Serve(&c.w, c.r, c.user); err != nil {
		c.fail(err)
	}
}

// lastWords is the time that a response has, when the watches of this server end, until a client
// that does not read is cut off.
const lastWords = time.Second

// endWithWatches lets the context of the request end when the watches of this server end. The
// caller must call release before it returns.
func (c *call) endWithWatches() (release func()) {
	ctx, cancel := context.WithCancelCause(c.r.Context())
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-c.h.ending:
		case <-done:
			return
		}
		cancel(forward.ErrEnding)
		timer := time.NewTimer(lastWords)
		defer timer.Stop()
		select {
		case <-timer.C:
			cut(http.NewResponseController(c.w.ResponseWriter))
		case <-done:
		}
	})
	c.r = c.r.WithContext(ctx)
	return func() {
		close(done)
		cancel(nil)
		watching.Wait()
	}
}
