package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authz"
	"github.com/kapok-dev/kapok/internal/resource"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// leakFree fails the test if goroutines outlive it.
func leakFree(t *testing.T) {
	t.Helper()
	current := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, current) })
}

// echo is a handler for tests of the parts around it:
//
//	/watch   streams until watches end
//	/hang    is silent until the client gives up or the server does
//	/panic   panics as net/http's handlers may
//	others   respond with the user of the request
type echo struct {
	who    *authn.Authenticator
	mu     sync.Mutex
	ended  chan struct{}
	once   sync.Once
	closed bool
	served int // requests under way; none may be when Close is called
	hangs  chan struct{}

	retired atomic.Bool
}

func newEcho() *echo {
	return &echo{ended: make(chan struct{}), hangs: make(chan struct{}, 8)}
}

// starter is a setup or an Options.
type starter interface {
	start(ctx context.Context) (*Server, error)
}

func (o Options) start(ctx context.Context) (*Server, error) { return Start(ctx, o) }

func (e *echo) options() setup {
	return setup{newHandler: func(_ context.Context, p parts) (handler, error) {
		e.who = p.authenticator
		return e, nil
	}}
}

func (e *echo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.count(1)
	defer e.count(-1)
	u, err := e.who.Identify(r)
	if err == nil {
		u, _, err = authz.Impersonate(r.Context(), authz.Basic{}, u, r.Header, true, func() *authz.Attributes { return &authz.Attributes{Verb: "get", Path: r.URL.Path} })
	}
	if err != nil {
		status := &apierrors.StatusError{}
		errors.As(err, &status)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(int(status.ErrStatus.Code))
		json.NewEncoder(w).Encode(status.ErrStatus)
		return
	}
	switch r.URL.Path {
	case "/watch":
		w.WriteHeader(http.StatusOK)
		http.NewResponseController(w).Flush()
		select {
		case <-e.ended:
		case <-r.Context().Done():
		}
		io.WriteString(w, "end")
	case "/hang":
		e.hangs <- struct{}{}
		<-r.Context().Done()
	default:
		fmt.Fprintf(w, "%s %v over %s", u.Name, u.Groups, r.Proto)
	}
}

func (e *echo) Store() *resource.Store { return nil }

func (e *echo) Retire() { e.retired.Store(true) }

func (e *echo) EndWatches() { e.once.Do(func() { close(e.ended) }) }

func (e *echo) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = e.served == 0
}

func (e *echo) count(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.served += n
}

// closedLast reports whether Close was called after the last request.
func (e *echo) closedLast() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closed
}

func start(t *testing.T, opts starter) *Server {
	t.Helper()
	s, err := opts.start(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop() })
	return s
}

func client(t *testing.T, config *rest.Config) *http.Client {
	t.Helper()
	c, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// get returns the status and the body.
func get(t *testing.T, c *http.Client, url string) (int, string) {
	t.Helper()
	r, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(body)
}
