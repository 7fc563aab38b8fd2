package manager

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	eventsv1client "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/tools/record/util"
	"k8s.io/client-go/tools/reference"
	"k8s.io/klog/v2"
)

// An EventRecorder records events of events.k8s.io. Recording does not block; the manager writes
// the events in the background.
type EventRecorder interface {
	events.EventRecorder
	events.AnnotatedEventRecorder
}

const (
	maxQueuedEvents = 1000
	eventTries      = 12
	eventRetry      = 10 * time.Second // between tries
	eventsPatience  = 5 * time.Second  // how long writing the last events may take when the manager stops
	maxInstance     = 128              // the longest reportingInstance that the API accepts
)

// A broadcaster writes events to the server, in the order in which they were recorded. One
// goroutine, that of run, writes them. Before it starts, events wait in a queue; events that do not
// fit are dropped, and so are those recorded after stop.
//
// The broadcasters of client-go are not used: they have no graceful shutdown, they start goroutines
// without an owner, and they name events by time alone, which does not advance in a bubble. Core
// events are aggregated by client-go's correlator; series are counted in series.go.
type broadcaster struct {
	logger logr.Logger
	core   corev1client.EventsGetter
	v1     eventsv1client.EventsGetter

	mu      sync.Mutex
	names   int64 // makes names unique, also among managers at the same instant
	stopped bool
	queue   chan func(context.Context)

	stopping chan struct{} // closed by stop: no more retries
	done     chan struct{} // closed when run has returned; nil before it starts

	// Of run alone:
	correlator *record.EventCorrelator
	series     series
}

func newBroadcaster(cfg *rest.Config, hc *http.Client, logger logr.Logger) (*broadcaster, error) {
	core, err := corev1client.NewForConfigAndClient(cfg, hc)
	if err != nil {
		return nil, fmt.Errorf("client of events: %w", err)
	}
	v1, err := eventsv1client.NewForConfigAndClient(cfg, hc)
	if err != nil {
		return nil, fmt.Errorf("client of events: %w", err)
	}
	b := &broadcaster{
		logger: logger, core: core, v1: v1, names: rand.Int64N(1 << 60), // with the time, it still fits
		queue: make(chan func(context.Context), maxQueuedEvents), stopping: make(chan struct{}),
		correlator: record.NewEventCorrelatorWithOptions(record.CorrelatorOptions{}),
	}
	b.series = series{write: b.writeV1, all: map[seriesKey]*observed{}}
	return b, nil
}

// start starts the writer.
func (b *broadcaster) start(ctx context.Context) {
	b.done = make(chan struct{})
	go func() {
		defer close(b.done)
		b.run(ctx)
	}()
}

func (b *broadcaster) run(ctx context.Context) {
	sweep := time.NewTicker(seriesEnd)
	defer sweep.Stop()
	for {
		select {
		case write, more := <-b.queue:
			if !more {
				b.series.end(ctx)
				return
			}
			write(ctx)
		case <-sweep.C:
			b.series.sweep(ctx)
		}
	}
}

// stop writes the queued events, and returns when that is done or cancel has ended it. If end is
// not zero, it gives up at that time.
func (b *broadcaster) stop(cancel context.CancelFunc, end time.Time) {
	b.mu.Lock()
	b.stopped = true
	close(b.queue)
	close(b.stopping)
	b.mu.Unlock()
	if b.done == nil {
		return
	}
	patience := eventsPatience
	if !end.IsZero() {
		patience = min(patience, time.Until(end))
	}
	defer time.AfterFunc(patience, cancel).Stop()
	<-b.done
}

// send queues the function that writes an event.
func (b *broadcaster) send(write func(context.Context)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped {
		return
	}
	select {
	case b.queue <- write:
	default:
		b.logger.Info("Dropped an event: too many wait")
	}
}

// name returns a name for an event of an object.
func (b *broadcaster) name(object string, now time.Time) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.names++
	return util.GenerateEventName(object, now.UnixNano()+b.names)
}

// attempt retries write until it succeeds or the server rejects the event. It gives up after
// eventTries.
func (b *broadcaster) attempt(ctx context.Context, event metav1.Object, write func() error) bool {
	for try := 1; ; try++ {
		err := write()
		if err == nil {
			return true
		}
		log := b.logger.WithValues("event", klog.KObj(event))
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			log.V(1).Info("Dropped an event: its namespace is being deleted")
			return false
		}
		if refused(err) || try == eventTries || ctx.Err() != nil {
			log.Error(err, "Cannot write an event")
			return false
		}
		select {
		case <-time.After(eventRetry):
		case <-b.stopping:
			log.Error(err, "Cannot write an event before the end")
			return false
		}
	}
}

// refused reports whether the server has rejected a request in a way that a retry cannot change.
func refused(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && status.ErrStatus.Code != http.StatusTooManyRequests && status.ErrStatus.Code < http.StatusInternalServerError
}

// writeCore writes a core event, or updates the count of an equal earlier one.
func (b *broadcaster) writeCore(ctx context.Context, e *corev1.Event) {
	result, err := b.correlator.EventCorrelate(e)
	if err != nil {
		b.logger.Error(err, "Cannot correlate an event")
	}
	if result == nil || result.Skip {
		return
	}
	e = result.Event
	b.logger.V(1).Info(e.Message, "type", e.Type, "object", e.InvolvedObject, "reason", e.Reason)
	interfaces := b.core.Events(e.Namespace)
	var written *corev1.Event
	if b.attempt(ctx, e, func() (err error) {
		if e.Count > 1 {
			written, err = interfaces.PatchWithEventNamespaceWithContext(ctx, e, result.Patch)
			if !util.IsKeyNotFoundError(err) {
				return err
			}
		}
		e.ResourceVersion = "" // if there was one, it has expired
		written, err = interfaces.CreateWithEventNamespaceWithContext(ctx, e)
		return err
	}) {
		b.correlator.UpdateState(written)
	}
}

// writeV1 creates an event, or patches the series of an existing one.
func (b *broadcaster) writeV1(ctx context.Context, e *eventsv1.Event, patch []byte) bool {
	interfaces := b.v1.Events(e.Namespace)
	return b.attempt(ctx, e, func() (err error) {
		if patch != nil {
			_, err = interfaces.Patch(ctx, e.Name, seriesPatch, patch, metav1.PatchOptions{})
			if !apierrors.IsNotFound(err) {
				return err
			}
		}
		_, err = interfaces.Create(ctx, e, metav1.CreateOptions{})
		return err
	})
}

// coreRecorder implements record.EventRecorder.
type coreRecorder struct {
	*broadcaster
	scheme *runtime.Scheme
	name   string
}

func (r coreRecorder) Event(obj runtime.Object, kind, reason, message string) {
	r.record(obj, nil, kind, reason, message)
}

func (r coreRecorder) Eventf(obj runtime.Object, kind, reason, format string, args ...any) {
	r.record(obj, nil, kind, reason, fmt.Sprintf(format, args...))
}

func (r coreRecorder) AnnotatedEventf(obj runtime.Object, annotations map[string]string, kind, reason, format string, args ...any) {
	r.record(obj, annotations, kind, reason, fmt.Sprintf(format, args...))
}

func (r coreRecorder) record(obj runtime.Object, annotations map[string]string, kind, reason, message string) {
	ref, ok := r.reference(r.scheme, obj, kind, reason)
	if !ok {
		return
	}
	now := metav1.Now()
	e := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: r.broadcaster.name(ref.Name, now.Time), Namespace: namespaceOf(ref), Annotations: annotations},
		InvolvedObject: *ref,
		Type:           kind, Reason: reason, Message: message,
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
		Source:              corev1.EventSource{Component: r.name},
		ReportingController: r.name,
	}
	r.send(func(ctx context.Context) { r.writeCore(ctx, e) })
}

// v1Recorder implements EventRecorder.
type v1Recorder struct {
	*broadcaster
	scheme         *runtime.Scheme
	name, instance string
}

func (b *broadcaster) newV1Recorder(scheme *runtime.Scheme, name string) v1Recorder {
	host, _ := os.Hostname() // which may be unknown
	instance := fmt.Sprintf("%s-%s", name, host)
	instance = instance[:min(len(instance), maxInstance)]
	return v1Recorder{b, scheme, name, instance}
}

func (r v1Recorder) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	r.AnnotatedEventf(regarding, related, nil, kind, reason, action, note, args...)
}

func (r v1Recorder) AnnotatedEventf(regarding, related runtime.Object, annotations map[string]string, kind, reason, action, note string, args ...any) {
	ref, ok := r.reference(r.scheme, regarding, kind, reason)
	if !ok {
		return
	}
	now := time.Now()
	e := &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Name: r.broadcaster.name(ref.Name, now), Namespace: namespaceOf(ref), Annotations: annotations},
		EventTime:           metav1.NewMicroTime(now),
		ReportingController: r.name, ReportingInstance: r.instance,
		Regarding: *ref,
		Type:      kind, Reason: reason, Action: action, Note: fmt.Sprintf(note, args...),
	}
	if related != nil {
		if other, err := reference.GetReference(r.scheme, related); err == nil {
			e.Related = other
		}
	}
	r.send(func(ctx context.Context) {
		r.logger.V(1).Info(e.Note, "type", e.Type, "object", e.Regarding, "reason", e.Reason, "action", e.Action)
		r.series.observe(ctx, e)
	})
}

// reference returns a reference to the object of an event. It logs why there is none.
func (b *broadcaster) reference(scheme *runtime.Scheme, obj runtime.Object, kind, reason string) (*corev1.ObjectReference, bool) {
	if !util.ValidateEventType(kind) {
		b.logger.Error(nil, "Cannot record an event: its type is not Normal or Warning", "type", kind, "reason", reason)
		return nil, false
	}
	ref, err := reference.GetReference(scheme, obj)
	if err != nil {
		b.logger.Error(err, "Cannot record an event: no reference to its object", "reason", reason)
		return nil, false
	}
	return ref, true
}

// namespaceOf returns the namespace in which events of an object are created.
func namespaceOf(ref *corev1.ObjectReference) string {
	if ref.Namespace == "" {
		return metav1.NamespaceDefault
	}
	return ref.Namespace
}
