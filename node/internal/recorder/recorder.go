// Package recorder writes the events of kubelets.
package recorder

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/node/internal/podstatus"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
)

const (
	maxQueuedEvents = 1000
	eventTries      = 5
	eventRetry      = time.Second
)

// A Recorder writes the events of kubelets, with the names of their nodes, which a manager's
// recorder does not know. Events that do not fit in its queue are dropped. It is a Runnable: one
// goroutine writes.
type Recorder struct {
	client  client.Client
	log     logr.Logger
	limiter *rate.Limiter // of Normal events
	queue   chan *corev1.Event
	names   atomic.Int64 // makes names unique
}

// An Event is one of a pod, or of one of its containers.
type Event struct {
	Type    string // corev1.EventTypeNormal or -Warning
	Reason  string
	Message string
	// FieldPath is the place of the container in the pod, "" for events of the pod: see FieldPath.
	FieldPath string
}

// FieldPath returns the place of a container in its pod.
func FieldPath(c *podstatus.Container) string {
	list := "containers"
	switch c.Kind {
	case podstatus.Init, podstatus.Sidecar:
		list = "initContainers"
	case podstatus.Ephemeral:
		list = "ephemeralContainers"
	}
	return fmt.Sprintf("spec.%s{%s}", list, c.Spec.Name)
}

// New returns a Recorder that writes at most perSecond Normal events in a second, after a burst of
// twice as many; negative: no limit. Further ones are dropped.
func New(c client.Client, log logr.Logger, perSecond int) *Recorder {
	limit := rate.Limit(perSecond)
	if perSecond < 0 {
		limit = rate.Inf
	}
	r := &Recorder{client: c, log: log, limiter: rate.NewLimiter(limit, 2*max(1, perSecond)), queue: make(chan *corev1.Event, maxQueuedEvents)}
	r.names.Store(rand.Int64N(1 << 60))
	return r
}

// Start implements manager.Runnable.
func (r *Recorder) Start(ctx context.Context) error {
	correlator := record.NewEventCorrelatorWithOptions(record.CorrelatorOptions{})
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-r.queue:
			result, err := correlator.EventCorrelate(e)
			if err != nil || result.Skip {
				continue
			}
			if written := r.write(ctx, result); written != nil {
				correlator.UpdateState(written)
			}
		}
	}
}

// write creates an event, or counts one that is there, and returns it; nil if that failed.
func (r *Recorder) write(ctx context.Context, result *record.EventCorrelateResult) *corev1.Event {
	for try := 1; ; try++ {
		e := result.Event.DeepCopy()
		err := error(nil)
		if e.Count > 1 {
			err = r.client.Patch(ctx, e, client.RawPatch(types.StrategicMergePatchType, result.Patch), client.Stale)
		}
		if e.Count <= 1 || apierrors.IsNotFound(err) {
			e.ResourceVersion = ""
			err = client.IgnoreAlreadyExists(r.client.Create(ctx, e, client.Stale))
		}
		if err == nil {
			return e
		}
		gone := apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsInvalid(err)
		if gone || try == eventTries || ctx.Err() != nil {
			r.log.V(1).Info("Dropped an event", "event", e.Message, "error", err.Error())
			return nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(eventRetry):
		}
	}
}

// Record queues the event of a pod. It does not block.
func (r *Recorder) Record(p *corev1.Pod, e Event) {
	if e.Type == corev1.EventTypeNormal && !r.limiter.Allow() {
		return
	}
	now := metav1.Now()
	written := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: fmt.Sprintf("%s.%x", p.Name, uint64(r.names.Add(1)))},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion, FieldPath: e.FieldPath,
		},
		Type: e.Type, Reason: e.Reason, Message: e.Message,
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
		Source:              corev1.EventSource{Component: "kubelet", Host: p.Spec.NodeName},
		ReportingController: "kubelet", ReportingInstance: p.Spec.NodeName,
	}
	select {
	case r.queue <- written:
	default:
	}
}
