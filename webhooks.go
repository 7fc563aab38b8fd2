package kapok

import (
	"context"
	"net"
	"time"

	"github.com/kapok-dev/kapok/internal/admission/hooks"
	"github.com/kapok-dev/kapok/internal/auth"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/webhook"
)

// WebhookOptions say how admission webhooks are reached: those that MutatingWebhookConfigurations and
// ValidatingWebhookConfigurations name.
type WebhookOptions struct {
	// Dial opens connections to webhooks, network "tcp", address HOST:PORT. In a testing/synctest bubble it opens them in
	// memory: the clock of a bubble stands still while a connection of the operating system is open. Default: those of the
	// operating system.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// webhooks are those who are asked about what users write. They own the connections to them.
type webhooks struct {
	*hooks.Hooks
	caller *webhook.Caller
}

func newWebhooks(o Options, store *resource.Store, authorizer auth.Authorizer) *webhooks {
	caller := webhook.New(webhook.Options{
		Services: webhook.InState(store.State()),
		Dial:     o.Webhooks.Dial,
		Timeout:  time.Hour, // each has one of its own
	})
	return &webhooks{
		Hooks:  hooks.New(hooks.Options{State: store.State(), Caller: caller, Authorizer: authorizer, Logger: o.Logger}),
		caller: caller,
	}
}

// Close breaks off calls and closes the connections.
func (w *webhooks) Close() { w.caller.Close() }
