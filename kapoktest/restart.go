package kapoktest

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/kapok-dev/kapok"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Restart stops the server, as if it were killed, and starts a new one with everything that the old
// one has committed: objects, resourceVersions, uids and keys, so that existing tokens remain
// valid. It returns when the new server is ready.
//
// Watches end, and requests in progress fail, whether or not they have been executed. Like a
// restarted kube-apiserver, whose watch cache begins with a list, the new server has no history:
// watches that resume from a resourceVersion before the last change of any kind get 410, and
// clients list again.
//
// Existing configurations and clients work with the new server. Requests of the Env itself wait for
// it. Webhook handlers of [Env.WebhookMux] that run at that moment continue, as they would in
// another process, but their responses are discarded. [Faults.Restart] restarts the server at
// random, with an outage.
func (e *Env) Restart() {
	for began := false; !began; {
		var done <-chan struct{}
		done, began = e.backend.restart(0, true)
		<-done
	}
}

// A backend is the server of an Env across restarts: it passes requests to the running server. It
// owns the server, and a goroutine for each restart.
type backend struct {
	start func() (*kapok.Server, error)
	fail  func(error)     // of a restart
	calm  <-chan struct{} // closed when there is to be no pause any more; nil for never

	restarts sync.WaitGroup

	mu      sync.Mutex
	changed sync.Cond // of mu
	server  *kapok.Server
	phase   phase
	missed  time.Time     // until when clients may not have noticed that there is a server again
	own     int           // active requests of the Env, without watches
	done    chan struct{} // closed when the current or last restart is over
	stopped chan struct{} // closed to end restarts
}

type phase int

const (
	up     phase = iota
	ending       // only the Env's own requests are served
	down
	gone // and does not come back
)

func newBackend(start func() (*kapok.Server, error), fail func(error)) (*backend, error) {
	b := &backend{start: start, fail: fail, done: make(chan struct{}), stopped: make(chan struct{})}
	b.changed.L = &b.mu
	close(b.done)
	var err error
	b.server, err = start()
	return b, err
}

func (b *backend) current() *kapok.Server {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.server
}

// restarted returns a channel that is closed when no restart is in progress.
func (b *backend) restarted() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.done
}

// restart begins a restart, unless one is in progress. Requests other than the Env's are refused
// until the new server runs, after a pause; done is closed then.
func (b *backend) restart(pause time.Duration, forget bool) (done <-chan struct{}, began bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.phase == gone || b.isStopped():
		return b.done, true // there is nothing to wait for
	case b.phase != up:
		return b.done, false
	}
	b.phase, b.done = ending, make(chan struct{})
	finished := b.done
	b.restarts.Go(func() {
		defer close(finished)
		if err := b.replace(pause, forget); err != nil {
			b.fail(err)
		}
	})
	return finished, true
}

// replace waits for the Env's own requests, and replaces the running server.
func (b *backend) replace(pause time.Duration, forget bool) error {
	b.mu.Lock()
	for b.own > 0 {
		b.changed.Wait()
	}
	b.phase = down
	old, fell := b.server, time.Now()
	b.mu.Unlock()

	next, err := b.successor(old, pause, forget)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.changed.Broadcast()
	if next == nil {
		b.phase = gone
		return err
	}
	b.server, b.phase = next, up
	b.missed = time.Now().Add(min(2*time.Since(fell), longestBackoff))
	return err
}

// longestBackoff is the longest backoff of queues; that of watches is shorter. Until then each
// backoff is twice the previous one, and so at most about twice as long as the outage.
const longestBackoff = 1000 * time.Second

// isAway reports whether the server is down, or clients may still be in backoff after an outage.
func (b *backend) isAway() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.phase == ending || b.phase == down || time.Now().Before(b.missed)
}

// successor kills a server, and starts the next one after a pause. It returns nil after stop.
func (b *backend) successor(old *kapok.Server, pause time.Duration, forget bool) (*kapok.Server, error) {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	if err := old.Shutdown(now); err != nil {
		return nil, err
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-b.calm:
	case <-b.stopped:
	}
	if b.isStopped() {
		return nil, nil
	}
	next, err := b.start()
	if err == nil && forget {
		err = next.Compact(context.Background())
	}
	return next, err
}

func (b *backend) isStopped() bool {
	select {
	case <-b.stopped:
		return true
	default:
		return false
	}
}

// settle ends restarts permanently: waiting requests are sent, or refused.
func (b *backend) settle() {
	b.mu.Lock()
	close(b.stopped)
	b.mu.Unlock()
	b.restarts.Wait()
}

// stop stops the server.
func (b *backend) stop() error { return b.current().Stop() }

// errRefused is the error of the operating system for an address without a listener.
var errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}

// RoundTrip implements http.RoundTripper.
func (b *backend) RoundTrip(r *http.Request) (*http.Response, error) {
	own := r.UserAgent() == ownAgent
	server, err := b.enter(r.Context(), own)
	if err != nil {
		closeBody(r)
		return nil, err
	}
	answer, err := server.Config().Transport.RoundTrip(r)
	switch {
	case !own:
		// After an EOF client-go retries, and sleeps before that while its caller may hold locks.
		if utilnet.IsProbableEOF(err) && !b.serves(server) {
			err = errLost
		}
	case err != nil:
		b.leave()
	case watches(r): // is cut by a restart, and does not keep it waiting
		answer.Body = smooth{answer.Body}
		b.leave()
	default:
		answer.Body = &counted{ReadCloser: answer.Body, close: sync.OnceFunc(b.leave)}
	}
	return answer, err
}

// enter returns the running server. Requests of the Env wait for it; others are refused while it is
// down.
func (b *backend) enter(ctx context.Context, own bool) (*kapok.Server, error) {
	if own {
		defer context.AfterFunc(ctx, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.changed.Broadcast()
		})()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for own && b.phase == down && ctx.Err() == nil {
		b.changed.Wait()
	}
	switch {
	case own && b.phase == down:
		return nil, ctx.Err()
	case b.phase == gone, !own && b.phase != up:
		return nil, errRefused
	case own:
		b.own++
	}
	return b.server, nil
}

// serves reports whether a server has not been killed.
func (b *backend) serves(server *kapok.Server) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.server == server && b.phase == up
}

func (b *backend) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.own--
	b.changed.Broadcast()
}

// counted is a response body; its request is in progress until the body is closed or read to its
// end.
type counted struct {
	io.ReadCloser
	close func()
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	if err != nil {
		c.close()
	}
	return n, err
}

func (c *counted) Close() error {
	defer c.close()
	return c.ReadCloser.Close()
}

// smooth is the body of a watch that ends with EOF even if the server was killed.
type smooth struct{ io.ReadCloser }

func (s smooth) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, context.Canceled) {
		err = io.EOF
	}
	return n, err
}
