// Package audit writes down who has asked the server for what, and what came of it,
// as Kubernetes' audit does: which requests and how much of them is said by a
// Policy of audit.k8s.io/v1; events go, as lines of JSON, to a file that is rotated,
// and in batches to a webhook.
//
// # What it promises
//
//   - A request never waits for a sink. What a sink has not taken yet waits in a
//     queue that is bounded in number and in bytes; what does not fit is dropped,
//     counted (apiserver_audit_error_total), and told of in the log. Here it differs
//     from kube-apiserver, which writes its file while the client waits.
//   - Events of one request come in the order of their stages, those of all requests
//     in the order in which the stages were reached.
//   - What was queued before Close is written by Close, within ten seconds.
//
// # Goroutines and locks
//
// An [Auditor] owns a goroutine for each sink and one that looks whether the policy
// has changed; Close ends them. A [Record] belongs to the goroutine of its request.
// A queue's lock is held for the time of an append.
package audit

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/internal/auth"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// Options are the settings of an Auditor.
type Options struct {
	// PolicyFile is the file with the Policy. It is read again when it changes; one that is wrong by then changes nothing.
	PolicyFile string
	// Log is where lines of JSON go; nil for nowhere.
	Log *FileOptions
	// Webhook is where batches go; nil for nowhere.
	Webhook *WebhookOptions
	// Logger is told of what goes wrong. Required.
	Logger *slog.Logger
}

// An Auditor decides which requests are written down, and sends what is to where it goes. It is safe for concurrent use.
type Auditor struct {
	policy  *policyFile
	queues  []*queue
	metrics metrics
	stop    context.CancelFunc
	running sync.WaitGroup
}

// New returns an Auditor, to be closed. The error is one of the settings.
func New(o Options) (_ *Auditor, err error) {
	a := &Auditor{metrics: newMetrics()}
	if a.policy, err = loadPolicy(o.PolicyFile); err != nil {
		return nil, err
	}
	var sinks []sink
	if o.Log != nil {
		f, err := openFile(*o.Log)
		if err != nil {
			return nil, err
		}
		sinks = append(sinks, f)
	}
	if o.Webhook != nil {
		w, err := newWebhook(*o.Webhook)
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
	a.running.Go(func() { a.policy.watch(ctx, o.Logger) })
	for _, s := range sinks {
		a.queues = append(a.queues, startQueue(s, &a.metrics, o.Logger))
	}
	return a, nil
}

// Close writes what is queued, and ends. No request is under way any more.
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

// Begin begins the record of a request; nil if the policy wants to know nothing of it. The user in the attributes is who
// sends the request, whomever he impersonates; nil if that is not known.
func (a *Auditor) Begin(r *http.Request, by *auth.Attributes, id string, received time.Time) *Record {
	rule := a.policy.rule(by)
	a.metrics.levels.WithLabelValues(string(rule.Level)).Inc()
	if rule.Level == audit.LevelNone {
		return nil
	}
	return &Record{auditor: a, rule: rule, event: newEvent(r, by, rule.Level, types.UID(id), received)}
}

// emit queues an event, which must not change any more but for its maps.
func (a *Auditor) emit(e auditv1.Event) {
	a.metrics.events.Inc()
	for _, q := range a.queues {
		q.add(&e)
	}
}
