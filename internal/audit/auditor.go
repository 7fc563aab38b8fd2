// Package audit records the requests to the server, as Kubernetes' audit does. A Policy of
// audit.k8s.io/v1 decides which requests are recorded, and in which detail; events are written as
// lines of JSON to a file that is rotated, and sent in batches to a webhook.
//
// # Promises
//
//   - A request never waits for a sink. Events wait in a queue that is bounded in number and in
//     bytes; events that do not fit are dropped, counted (apiserver_audit_error_total), and logged.
//     kube-apiserver differs: it writes to its file while the client waits.
//   - The events of one request are in the order of their stages, those of all requests in the
//     order in which the stages were reached.
//   - Close writes the events that were queued before it, within ten seconds.
//
// # Goroutines and locks
//
// An [Auditor] owns a goroutine for each sink, and one that reloads the policy when its file
// changes; Close ends them and waits. A [Record] belongs to the goroutine of its request. The lock
// of a queue is never held during a write to a sink.
package audit

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/internal/authz"
	"github.com/kapok-dev/kapok/internal/reload"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// An Auditor decides which requests are recorded, and sends their events to the sinks. It is safe
// for concurrent use.
type Auditor struct {
	policy  *policyFile
	queues  []*queue
	metrics metrics
	stop    context.CancelFunc
	running sync.WaitGroup
}

// New returns an Auditor for valid options with a policy; the caller closes it. log receives errors
// of sinks and of the policy. The error is that of reading the policy or opening a sink.
func New(o Options, log *slog.Logger) (_ *Auditor, err error) {
	o = o.withDefaults()
	a := &Auditor{metrics: newMetrics()}
	if a.policy, err = loadPolicy(context.Background(), o.PolicyFile); err != nil {
		return nil, err
	}
	var sinks []sink
	if o.LogPath != "" {
		f, err := openFile(o)
		if err != nil {
			return nil, err
		}
		sinks = append(sinks, f)
	}
	if o.Webhook != "" {
		w, err := newWebhook(o)
		if err != nil {
			for _, s := range sinks {
				err = errors.Join(err, s.close())
			}
			return nil, err
		}
		sinks = append(sinks, w)
	}
	var ctx context.Context
	ctx, a.stop = context.WithCancel(context.Background())
	a.running.Go(func() { reload.Watch(ctx, log, a.policy.file) })
	for _, s := range sinks {
		a.queues = append(a.queues, startQueue(s, &a.metrics, log))
	}
	return a, nil
}

// Close writes the queued events, and ends the goroutines. It must be called after the last
// request.
func (a *Auditor) Close() error {
	a.stop()
	a.running.Wait()
	errs := make([]error, len(a.queues))
	var closing sync.WaitGroup
	for i, q := range a.queues {
		closing.Go(func() { errs[i] = q.close() })
	}
	closing.Wait()
	return errors.Join(errs...)
}

// Collectors are the metrics, under Kubernetes' names.
func (a *Auditor) Collectors() []prometheus.Collector { return a.metrics.collectors() }

// Begin starts the record of a request; it returns nil if the policy does not record the request.
// by has the authenticated user, before impersonation; it is nil if authentication failed.
func (a *Auditor) Begin(r *http.Request, by *authz.Attributes, id string, received time.Time) *Record {
	rule := a.policy.rule(by)
	a.metrics.levels.WithLabelValues(string(rule.Level)).Inc()
	if rule.Level == audit.LevelNone {
		return nil
	}
	return &Record{auditor: a, rule: rule, event: newEvent(r, by, rule.Level, types.UID(id), received)}
}

// emit queues an event, of which only the maps may change afterwards.
func (a *Auditor) emit(e auditv1.Event) {
	a.metrics.events.Inc()
	for _, q := range a.queues {
		q.add(&e)
	}
}
