package webhook

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/lru"
)

const (
	// defaultTimeout is kube-apiserver's timeout of a conversion.
	defaultTimeout = 30 * time.Second
	// maxTransports is the number of webhooks whose transports are kept, as in kube-apiserver.
	maxTransports = 200
	// maxAnswer is the maximum size of a response, in bytes.
	maxAnswer = 64 << 20
	// userAgent is kube-apiserver's for all webhooks.
	userAgent = "kube-apiserver-admission"
)

// Options configure a Caller. The zero value is valid.
type Options struct {
	// Services resolves the services that webhooks name. Default: no service exists.
	Services Services
	// Timeout bounds a call, connecting included. Default: 30 seconds.
	Timeout time.Duration
	// Dial opens connections. Default: the operating system's.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Inside returns a function that connects to a service of this process, or nil if the service
	// is elsewhere. Such connections use no TLS, so that the CA bundle does not matter. Inside is
	// called once for each webhook. Default: all services are elsewhere.
	Inside func(namespace, name string) func(ctx context.Context) (net.Conn, error)
}

// A Caller calls webhooks. It is safe for concurrent use.
type Caller struct {
	options    Options
	transports *lru.Cache // by the key of a Hook
	conns      conns

	ctx   context.Context // cancelled by Close
	stop  context.CancelFunc
	calls struct {
		sync.Mutex
		closed bool
		sync.WaitGroup
	}
}

// New returns a Caller. The caller of New closes it.
func New(o Options) *Caller {
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.Services == nil {
		o.Services = noServices{}
	}
	if o.Inside == nil {
		o.Inside = func(_, _ string) func(context.Context) (net.Conn, error) { return nil }
	}
	if o.Dial == nil {
		o.Dial = (&net.Dialer{KeepAlive: 30 * time.Second}).DialContext
	}
	c := &Caller{options: o, conns: conns{open: map[net.Conn]struct{}{}}}
	c.transports = lru.NewWithEvictionFunc(maxTransports, func(_ lru.Key, t any) { t.(*transport).http.CloseIdleConnections() })
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c
}

// Close cancels all calls, waits for them and closes the connections.
func (c *Caller) Close() {
	c.calls.Lock()
	c.calls.closed = true
	c.calls.Unlock()
	c.stop()
	c.calls.Wait()
	c.conns.close()
}

// Client returns a REST client of a webhook, which encodes and decodes bodies with codecs.
// Transports are cached by the content of the hook, so that a call of Client is cheap. The error
// describes what is invalid in the hook.
func (c *Caller) Client(h *Hook, codecs runtime.NegotiatedSerializer) (*rest.RESTClient, error) {
	t, err := c.transport(h)
	if err != nil {
		return nil, err
	}
	config := &rest.Config{
		Host:    t.host,
		APIPath: t.path,
		ContentConfig: rest.ContentConfig{
			ContentType:          runtime.ContentTypeJSON,
			NegotiatedSerializer: codecs,
		},
		QPS:            -1,
		WarningHandler: rest.NoWarnings{},
	}
	return rest.UnversionedRESTClientForConfigAndClient(config, &http.Client{Transport: t, Timeout: c.options.Timeout})
}

func (c *Caller) transport(h *Hook) (*transport, error) {
	if known, ok := c.transports.Get(h.key); ok {
		return known.(*transport), nil
	}
	t, err := newTransport(c, h)
	if err == nil {
		c.transports.Add(h.key, t) // a concurrent call may have added another: both work
	}
	return t, err
}

var errClosed = errors.New("the server is shutting down")

// begin starts a call, whose context ends with ctx or with the Caller. The caller of begin must
// call end.
func (c *Caller) begin(ctx context.Context) (_ context.Context, end func(), err error) {
	c.calls.Lock()
	defer c.calls.Unlock()
	if c.calls.closed {
		return nil, nil, errClosed
	}
	c.calls.Add(1)
	ctx, cancel := context.WithCancelCause(ctx)
	release := context.AfterFunc(c.ctx, func() { cancel(errClosed) })
	return ctx, func() {
		release()
		cancel(nil)
		c.calls.Done()
	}, nil
}

// conns are the open connections.
type conns struct {
	sync.Mutex
	open map[net.Conn]struct{} // nil once closed
}

// add registers a connection, and returns one whose Close removes it. After close it closes the
// connection and returns an error.
func (c *conns) add(conn net.Conn) (net.Conn, error) {
	c.Lock()
	defer c.Unlock()
	if c.open == nil {
		conn.Close()
		return nil, errClosed
	}
	c.open[conn] = struct{}{}
	return &owned{conn, c}, nil
}

func (c *conns) close() {
	c.Lock()
	open := c.open
	c.open = nil
	c.Unlock()
	for conn := range open {
		conn.Close()
	}
}

type owned struct {
	net.Conn
	conns *conns
}

func (o *owned) Close() error {
	o.conns.Lock()
	delete(o.conns.open, o.Conn)
	o.conns.Unlock()
	return o.Conn.Close()
}
