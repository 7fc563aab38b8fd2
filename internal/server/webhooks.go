package server

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/kapok-dev/kapok/internal/admission/hooks"
	"github.com/kapok-dev/kapok/internal/authz"
	"github.com/kapok-dev/kapok/internal/gates"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/transport"
	"github.com/kapok-dev/kapok/internal/webhook"
)

// WebhookOptions configure the connections to webhooks: admission webhooks, which
// MutatingWebhookConfigurations and ValidatingWebhookConfigurations name, and conversion webhooks
// of custom resources.
type WebhookOptions struct {
	// Services returns the handler of a service that this program serves itself, for webhooks whose
	// clientConfig names the service, and nil for other services. Requests reach the handler in
	// memory, without TLS, and ignore caBundle; this works in a testing/synctest bubble, too. Services
	// is called any number of times, and must return the same handler each time. Stop waits until the
	// handler has returned from all requests. Default: no service is in this program, and webhooks are
	// called at the addresses that the objects of the service have.
	Services func(namespace, name string) http.Handler
	// Dial opens connections to all other webhooks, with network "tcp" and address HOST:PORT. In a
	// bubble it must open them in memory, since the clock of a bubble stands still while a connection
	// of the operating system is open. Default: connections of the operating system.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// webhooks are the admission webhooks. They own the connections of all webhooks.
type webhooks struct {
	*hooks.Hooks
	options webhook.Options // of all callers of webhooks
	caller  *webhook.Caller
	inside  *ownServices // nil if no service is in this program
}

func newWebhooks(o Options, store *resource.Store, authorizer authz.Authorizer) *webhooks {
	w := &webhooks{options: webhook.Options{Services: webhook.InState(store.State()), Dial: o.Webhooks.Dial}}
	if o.Webhooks.Services != nil {
		w.inside = serveServices(o.Webhooks.Services, o.Logger)
		w.options.Inside = w.inside.find
	}
	ofAdmission := w.options
	ofAdmission.Timeout = time.Hour // each webhook has a timeout of its own
	w.caller = webhook.New(ofAdmission)
	w.Hooks = hooks.New(hooks.Options{State: store.State(), Caller: w.caller, Authorizer: authorizer, Logger: o.Logger, CallForReviews: !o.gates().Enabled(gates.WebhooksExcludeReviews)})
	return w
}

// Close cancels calls and closes the connections. It is called when other callers of webhooks have
// ended.
func (w *webhooks) Close() {
	w.caller.Close()
	if w.inside != nil {
		w.inside.close()
	}
}

// ownServices serves the services that are in this program, by plain HTTP over pipes.
type ownServices struct {
	handlers func(namespace, name string) http.Handler
	server   *transport.Server
	pipes    *transport.Listener
	ctx      context.Context // of all requests
	stop     context.CancelFunc
}

// servicePipe is the server's end of a connection to one service.
type servicePipe struct {
	net.Conn
	handler http.Handler
}

// handlerKey is the key of the handler in the context of a request.
type handlerKey struct{}

func serveServices(handlers func(namespace, name string) http.Handler, log *slog.Logger) *ownServices {
	s := &ownServices{handlers: handlers, pipes: transport.NewListener()}
	s.server = transport.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Context().Value(handlerKey{}).(http.Handler).ServeHTTP(w, r)
	}), log)
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.server.BaseContext = func(net.Listener) context.Context { return s.ctx }
	s.server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, handlerKey{}, c.(*servicePipe).handler)
	}
	s.server.Start(s.pipes, func() {}) // pipes do not fail
	return s
}

// find implements webhook.Options.Inside.
func (s *ownServices) find(namespace, name string) func(context.Context) (net.Conn, error) {
	handler := s.handlers(namespace, name)
	if handler == nil {
		return nil
	}
	return func(ctx context.Context) (net.Conn, error) {
		return s.pipes.Connect(ctx, func(end net.Conn) net.Conn { return &servicePipe{end, handler} })
	}
}

// close is called after the last call. It waits for running handlers.
func (s *ownServices) close() {
	s.stop()
	_ = s.server.Stop(s.ctx) // pipes do not fail
}
