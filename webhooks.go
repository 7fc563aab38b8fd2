package kapok

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/kapok-dev/kapok/internal/admission/hooks"
	"github.com/kapok-dev/kapok/internal/auth"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/webhook"
)

// WebhookOptions say how webhooks are reached: those of admission, which MutatingWebhookConfigurations and
// ValidatingWebhookConfigurations name, and those that convert custom resources.
type WebhookOptions struct {
	// Services returns the handler of a service that this program is itself, for webhooks whose clientConfig names the
	// service; nil for one that is elsewhere. Requests reach the handler in memory, without TLS and whatever caBundle is, also in a
	// testing/synctest bubble. It is asked now and then, and must say the same each time. Stop waits until the handler has
	// answered all requests. Default: every service is elsewhere, where the objects that describe it say.
	Services func(namespace, name string) http.Handler
	// Dial opens connections to all others, network "tcp", address HOST:PORT. In a bubble it opens them in
	// memory: the clock of a bubble stands still while a connection of the operating system is open. Default: those of the
	// operating system.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// webhooks are those who are asked about what users write. They own the connections to them.
type webhooks struct {
	*hooks.Hooks
	options webhook.Options // of all who call webhooks
	caller  *webhook.Caller
	inside  *ownServices // nil if all services are elsewhere
}

func newWebhooks(o Options, store *resource.Store, authorizer auth.Authorizer) *webhooks {
	w := &webhooks{options: webhook.Options{Services: webhook.InState(store.State()), Dial: o.Webhooks.Dial}}
	if o.Webhooks.Services != nil {
		w.inside = serveServices(o.Webhooks.Services, o.Logger)
		w.options.Inside = w.inside.find
	}
	ofAdmission := w.options
	ofAdmission.Timeout = time.Hour // each has one of its own
	w.caller = webhook.New(ofAdmission)
	w.Hooks = hooks.New(hooks.Options{State: store.State(), Caller: w.caller, Authorizer: authorizer, Logger: o.Logger})
	return w
}

// Close breaks off calls and closes the connections. Others who call webhooks have ended theirs.
func (w *webhooks) Close() {
	w.caller.Close()
	if w.inside != nil {
		w.inside.close()
	}
}

// ownServices serves the services that the program is itself: plain HTTP over pipes.
type ownServices struct {
	handlers func(namespace, name string) http.Handler
	server   *httpServer
	pipes    *pipes
	ctx      context.Context // of all requests
	stop     context.CancelFunc
}

// servicePipe is the server's end of a connection to one service.
type servicePipe struct {
	net.Conn
	handler http.Handler
}

// handlerKey is that of the handler in the context of a request.
type handlerKey struct{}

func serveServices(handlers func(namespace, name string) http.Handler, log *slog.Logger) *ownServices {
	s := &ownServices{handlers: handlers, pipes: newPipes()}
	s.server = newHTTPServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Context().Value(handlerKey{}).(http.Handler).ServeHTTP(w, r)
	}), log)
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.server.BaseContext = func(net.Listener) context.Context { return s.ctx }
	s.server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, handlerKey{}, c.(*servicePipe).handler)
	}
	s.server.start(s.pipes, func() {}) // pipes do not fail
	return s
}

// find is for webhook.Options.
func (s *ownServices) find(namespace, name string) func(context.Context) (net.Conn, error) {
	handler := s.handlers(namespace, name)
	if handler == nil {
		return nil
	}
	return func(ctx context.Context) (net.Conn, error) {
		return s.pipes.connect(ctx, func(end net.Conn) net.Conn { return &servicePipe{end, handler} })
	}
}

// close is for when nobody calls any more. It waits for handlers that have not noticed yet.
func (s *ownServices) close() {
	s.stop()
	_ = s.server.stop(s.ctx) // pipes do not fail
}
