package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

const (
	// maxQueued bounds the number of events that wait for a sink, as kube-apiserver does for webhooks;
	// maxQueuedBytes bounds the parts of them whose length clients and webhooks choose.
	maxQueued      = 10_000
	maxQueuedBytes = 64 << 20
	// closing is the time limit for writing the queued events when the server ends.
	closing = 10 * time.Second
	// complainEvery is the time between two lines in the log on what was dropped.
	complainEvery = 10 * time.Second
)

// A sink takes events to where they are kept.
type sink interface {
	name() string
	// batch returns the maximum number of events of a batch, and how long the sink waits for them.
	batch() (most int, wait time.Duration)
	// limit returns the maximum size of events and batches.
	limit() limit
	// write may block until the context ends. Events for which it returns an error are lost.
	write(ctx context.Context, events []*auditv1.Event) error
	close() error
}

// queue buffers events between requests and a sink. It owns the goroutine that writes to the sink.
type queue struct {
	sink    sink
	log     *slog.Logger
	dropped prometheus.Counter
	cut     prometheus.Counter // events that are too large even when they are truncated

	ctx     context.Context // of writes
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	events  []*auditv1.Event
	bytes   int
	lost    int // not logged yet
	closed  bool
	changed chan struct{} // has room for one
}

func startQueue(s sink, m *metrics, log *slog.Logger) *queue {
	q := &queue{sink: s, log: log, dropped: m.errors.WithLabelValues(s.name()), cut: m.errors.WithLabelValues("truncate"), changed: make(chan struct{}, 1)}
	q.ctx, q.cancel = context.WithCancel(context.Background())
	q.running.Go(q.run)
	return q
}

// add queues an event, or drops it.
func (q *queue) add(e *auditv1.Event) {
	n := size(e)
	q.mu.Lock()
	if len(q.events) >= maxQueued || len(q.events) > 0 && q.bytes+n > maxQueuedBytes {
		q.lost++
		q.mu.Unlock()
		q.dropped.Inc()
		return
	}
	q.events = append(q.events, e)
	q.bytes += n
	most, _ := q.sink.batch()
	tell := len(q.events) == 1 || len(q.events) == most
	q.mu.Unlock()
	if tell {
		q.poke()
	}
}

func (q *queue) poke() {
	select {
	case q.changed <- struct{}{}:
	default:
	}
}

// size returns the approximate size of an event. It counts every field whose length a client
// chooses, because requests of unauthenticated clients are recorded, too.
func size(e *auditv1.Event) int {
	n := 1<<10 + len(e.RequestURI) + len(e.Verb) + len(e.UserAgent) + sizeOf(&e.User)
	if e.ImpersonatedUser != nil {
		n += sizeOf(e.ImpersonatedUser)
	}
	if ref := e.ObjectRef; ref != nil {
		n += len(ref.Namespace) + len(ref.Name) + len(ref.Resource) + len(ref.Subresource) + len(ref.UID) + len(ref.APIGroup) + len(ref.APIVersion) + len(ref.ResourceVersion)
	}
	if status := e.ResponseStatus; status != nil {
		n += len(status.Message) + len(status.Reason)
		if status.Details != nil {
			n += len(status.Details.Name)
			for _, cause := range status.Details.Causes {
				n += len(cause.Message) + len(cause.Field)
			}
		}
	}
	for _, obj := range []*runtime.Unknown{e.RequestObject, e.ResponseObject} {
		if obj != nil {
			n += len(obj.Raw)
		}
	}
	for key, value := range e.Annotations {
		n += len(key) + len(value)
	}
	return n
}

func sizeOf(u *authenticationv1.UserInfo) int {
	n := len(u.Username) + len(u.UID)
	for _, group := range u.Groups {
		n += len(group)
	}
	for key, values := range u.Extra {
		n += len(key)
		for _, value := range values {
			n += len(value)
		}
	}
	return n
}

func (q *queue) run() {
	most, wait := q.sink.batch()
	limit := q.sink.limit()
	complained := time.Now().Add(-complainEvery)
	complain := func(lost int, err error) {
		q.mu.Lock()
		q.lost += lost
		q.mu.Unlock()
		if time.Since(complained) >= complainEvery {
			complained = time.Now()
			q.log.Error("audit events are lost", "sink", q.sink.name(), "err", err)
		}
	}
	for {
		if !q.await(most, wait) {
			return
		}
		batch, lost := q.take(most)
		parts, large := limit.split(batch)
		if large > 0 {
			q.cut.Add(float64(large))
			complain(large, errors.New("events are too large, also without their objects"))
		}
		for _, part := range parts {
			if err := q.sink.write(q.ctx, part); err != nil {
				q.dropped.Add(float64(len(part)))
				complain(len(part), err)
			}
		}
		if lost > 0 {
			if time.Since(complained) >= complainEvery {
				complained = time.Now()
				q.log.Error("audit events are lost: the sink is slower than the requests", "sink", q.sink.name(), "events", lost)
			} else {
				q.mu.Lock()
				q.lost += lost // logged later
				q.mu.Unlock()
			}
		}
	}
}

// await waits until there is a batch, or something that has waited long enough; false at the end,
// with nothing left.
func (q *queue) await(most int, wait time.Duration) bool {
	var late <-chan time.Time
	for {
		q.mu.Lock()
		n, closed := len(q.events), q.closed
		q.mu.Unlock()
		if n >= most || n > 0 && (closed || wait == 0) {
			return true
		}
		if closed {
			return false
		}
		if n > 0 && late == nil {
			late = time.After(wait)
		}
		select {
		case <-q.changed:
		case <-late:
			return true
		}
	}
}

func (q *queue) take(most int) (batch []*auditv1.Event, lost int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(most, len(q.events))
	batch = append(batch, q.events[:n]...)
	q.events = append(q.events[:0], q.events[n:]...)
	clear(q.events[len(q.events):cap(q.events)])
	for _, e := range batch {
		q.bytes -= size(e)
	}
	lost, q.lost = q.lost, 0
	return batch, lost
}

// close writes the queued events within the time limit.
func (q *queue) close() error {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.poke()
	late := time.AfterFunc(closing, q.cancel)
	q.running.Wait()
	late.Stop()
	q.cancel()
	err := q.sink.close()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.lost > 0 {
		err = errors.Join(err, fmt.Errorf("audit: %d events are lost (sink: %s)", q.lost, q.sink.name()))
	}
	return err
}
