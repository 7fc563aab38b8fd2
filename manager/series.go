package manager

import (
	"context"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// seriesEnd is the time after its last event at which a series ends. An equal event after that
	// starts over, also after a single event.
	seriesEnd = 6 * time.Minute
	// seriesRefresh is the interval at which the count of a series is written, so that its event
	// does not expire.
	seriesRefresh = 30 * time.Minute

	seriesPatch = types.MergePatchType
)

// series aggregates equal events, as client-go does: the second one starts a series and is written;
// later ones are counted, and the count is written periodically and when the series ends. It is
// used by one goroutine.
type series struct {
	// write creates an event, or patches it if there is a patch, and reports whether it succeeded.
	write func(context.Context, *eventsv1.Event, []byte) bool
	all   map[seriesKey]*observed
}

// A seriesKey is the part that all events of a series have in common.
type seriesKey struct {
	kind, action, reason, controller, instance string
	regarding, related                         corev1.ObjectReference
}

// observed is the state of a series.
type observed struct {
	event   *eventsv1.Event // the first
	last    time.Time       // of the last event
	written time.Time       // the count
	dirty   bool            // the count is not written
}

func (s *series) observe(ctx context.Context, e *eventsv1.Event) {
	key := seriesKey{e.Type, e.Action, e.Reason, e.ReportingController, e.ReportingInstance, e.Regarding, corev1.ObjectReference{}}
	if e.Related != nil {
		key.related = *e.Related
	}
	key.regarding.ResourceVersion, key.related.ResourceVersion = "", "" // changes do not make it another object
	o := s.all[key]
	if o == nil {
		if s.write(ctx, e, nil) {
			s.all[key] = &observed{event: e, last: e.EventTime.Time, written: e.EventTime.Time}
		}
		return
	}
	o.last, o.dirty = e.EventTime.Time, true
	if o.event.Series != nil {
		o.event.Series.Count++
		o.event.Series.LastObservedTime = e.EventTime
		return
	}
	o.event.Series = &eventsv1.EventSeries{Count: 2, LastObservedTime: e.EventTime}
	s.flush(ctx, o)
}

// sweep ends series that are over and refreshes the others.
func (s *series) sweep(ctx context.Context) {
	now := time.Now()
	for key, o := range s.all {
		over := now.Sub(o.last) >= seriesEnd
		if o.dirty && (over || now.Sub(o.written) >= seriesRefresh) {
			s.flush(ctx, o)
		}
		if over {
			delete(s.all, key)
		}
	}
}

// end writes all counts.
func (s *series) end(ctx context.Context) {
	for _, o := range s.all {
		if o.dirty {
			s.flush(ctx, o)
		}
	}
	clear(s.all)
}

func (s *series) flush(ctx context.Context, o *observed) {
	patch, err := json.Marshal(map[string]any{"series": map[string]any{
		"count": o.event.Series.Count, "lastObservedTime": metav1.MicroTime(o.event.Series.LastObservedTime)}})
	if err == nil && s.write(ctx, o.event.DeepCopy(), patch) {
		o.dirty, o.written = false, time.Now()
	}
}
