package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/flowcontrol"
)

const (
	attempts      = 5
	oneAttempt    = 30 * time.Second
	throttleQPS   = 10 // batches
	throttleBurst = 15
	userAgent     = "kube-apiserver-admission"
)

// webhook is a sink that sends an EventList for each batch.
type webhook struct {
	options   Options
	url       string
	client    *http.Client
	transport *http.Transport
	throttle  flowcontrol.RateLimiter
}

// newWebhook expects options with defaults and a Webhook.
func newWebhook(o Options) (*webhook, error) {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: o.Webhook}, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("audit webhook %s: %w", o.Webhook, err)
	}
	secure, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("audit webhook %s: %w", o.Webhook, err)
	}
	w := &webhook{
		options:   o,
		url:       config.Host,
		transport: &http.Transport{TLSClientConfig: secure, TLSHandshakeTimeout: 10 * time.Second, ForceAttemptHTTP2: true},
		throttle:  flowcontrol.NewTokenBucketRateLimiter(throttleQPS, throttleBurst),
	}
	config.UserAgent = userAgent
	wrapped, err := rest.HTTPWrappersForConfig(config, w.transport)
	if err != nil {
		return nil, fmt.Errorf("audit webhook %s: %w", o.Webhook, err)
	}
	w.client = &http.Client{Transport: wrapped, Timeout: oneAttempt, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // the events would be sent to an address that is not configured
	}}
	return w, nil
}

func (*webhook) name() string { return "webhook" }
func (w *webhook) batch() (int, time.Duration) {
	return w.options.WebhookBatchMaxSize, w.options.WebhookBatchMaxWait
}

func (w *webhook) limit() limit { return w.options.webhookLimit() }

func (w *webhook) write(ctx context.Context, events []*auditv1.Event) error {
	list := auditv1.EventList{TypeMeta: metav1.TypeMeta{APIVersion: auditv1.SchemeGroupVersion.String(), Kind: "EventList"}}
	for _, e := range events {
		item := *e
		item.TypeMeta = metav1.TypeMeta{}
		list.Items = append(list.Items, item)
	}
	data, err := json.Marshal(list)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	if err := w.throttle.Wait(ctx); err != nil {
		return err
	}
	backoff := w.options.WebhookInitialBackoff
	for n := 1; ; n++ {
		if err = w.send(ctx, data); err == nil || n == attempts {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(backoff):
		}
		backoff += backoff / 2
	}
}

func (w *webhook) send(ctx context.Context, data []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(data))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := w.client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10)) // so that the connection can be kept
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("the webhook returned %s", answer.Status)
	}
	return nil
}

func (w *webhook) close() error {
	w.transport.CloseIdleConnections()
	return nil
}
