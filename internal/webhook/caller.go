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
	// defaultTimeout is how long kube-apiserver waits for a conversion.
	defaultTimeout = 30 * time.Second
	// maxTransports is how many different webhooks are remembered, as in kube-apiserver.
	maxTransports = 200
	// maxAnswer bounds an answer, in bytes.
	maxAnswer = 64 << 20
	// userAgent is that of kube-apiserver for all webhooks.
	userAgent = "kube-apiserver-admission"
)

// Options say how webhooks are called.
type Options struct {
	// Services finds the services that webhooks are at. Nil finds none.
	Services Services
	// Timeout is how long a call may take; 0 for 30 seconds.
	Timeout time.Duration
	// Dial opens connections; nil for those of the operating system.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Inside returns how to reach a service that this process is itself: by connections that are secure as they are, without
	// TLS, and so whatever the CA bundle is. Nil for one that is elsewhere. It is asked once for each webhook. Nil: all are elsewhere.
	Inside func(namespace, name string) func(ctx context.Context) (net.Conn, error)
}

// A Caller calls webhooks. It is safe for concurrent use.
type Caller struct {
	options    Options
	transports *lru.Cache // key of a Hook -> *transport
	conns      conns

	ctx   context.Context // of all calls
	stop  context.CancelFunc
	calls struct {
		sync.Mutex
		closed bool
		sync.WaitGroup
	}
}

// New returns a Caller, to be closed.
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

// Close breaks off all calls, waits for them and closes the connections.
func (c *Caller) Close() {
	c.calls.Lock()
	c.calls.closed = true
	c.calls.Unlock()
	c.stop()
	c.calls.Wait()
	c.conns.close()
}

// Client returns a client of a webhook, whose requests go where the hook says. Its codecs encode and decode bodies. It is
// cheap: what is expensive is known by the content of the hook. The error says what is wrong with the hook.
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
		c.transports.Add(h.key, t) // somebody else may have made another: both work
	}
	return t, err
}

var errClosed = errors.New("the server is shutting down")

// begin starts a call, which ends with ctx or with the Caller. The caller of begin calls end.
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

// conns are the connections that are open.
type conns struct {
	sync.Mutex
	open map[net.Conn]struct{} // nil once closed
}

// add takes a connection in, and returns it with a Close that takes it out. After close it closes the connection.
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
